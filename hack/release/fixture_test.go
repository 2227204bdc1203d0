// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// top is the repository.
const top = "../.."

// changelog has the releases v1.2.3 and v1.2.2.
const changelog = `# Changelog

## [Unreleased]

### Added

- What comes next.

## [1.2.3] - 2026-01-31

### Fixed

- **Scheduler.** A fault ([docs/faults.md](docs/faults.md), [report](https://example.com/1)).

## [1.2.2] - 2026-01-01

- An earlier one.
`

// newCheckout returns a release of a commit that has the given files of this repository, and a plugin for two platforms. It is
// written to a folder that does not exist yet.
func newCheckout(t *testing.T, files ...string) release {
	t.Helper()
	r := release{
		version: "v1.2.3", created: time.Unix(1767225600, 0).UTC(), registry: "registry.example/team", downloads: "https://example.com/v1.2.3/",
		source: t.TempDir(), bin: t.TempDir(),
	}
	r.out = filepath.Join(r.bin, "release", r.version)
	list, err := release{source: top}.output(t.Context(), "git", append([]string{"ls-files", "LICENSE", "go.sum", "cmd/kubectl-stowage/kubectl_complete*"}, files...)...)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(list, "\n") {
		data, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(r.source, name), data)
	}
	write(t, filepath.Join(r.source, "CHANGELOG.md"), []byte(changelog))
	git(t, r, "init", "--quiet")
	commit(t, r)
	if r.revision, err = r.output(t.Context(), "git", "rev-parse", "HEAD"); err != nil {
		t.Fatal(err)
	}
	for platform, binary := range map[string]string{"linux-amd64": "kubectl-stowage", "windows-arm64": "kubectl-stowage.exe"} {
		write(t, filepath.Join(r.bin, "plugin", platform, binary), []byte(platform))
	}
	return r
}

// parts are the images of a release, and how their tags end. Their place in the list decides the digest.
var parts = []struct{ name, minor string }{
	{"stowage-controller", ""}, {"stowage-csi", ""}, {"stowage-extender", ""}, {"stowage-pav-reporter", ""}, {"stowage-provisioner", ""},
	{"stowage-scheduler", "-kube1.36"}, {"stowage-scheduler", "-kube1.37"},
}

func digest(part int) string { return fmt.Sprintf("sha256:%064d", part+1) }

// build returns a release of all manifests with its parts: layouts that only have an index, documents and binaries that only
// have a name.
func build(t *testing.T) release {
	t.Helper()
	r := newCheckout(t, "manifests")
	r.helm, r.kustomize = tool(t, "helm.sh/helm/v4/cmd/helm"), tool(t, "sigs.k8s.io/kustomize/kustomize/v5")
	folder := filepath.Join(r.bin, "release", "parts")
	for i, part := range parts {
		name := part.name + part.minor
		index, err := json.Marshal(map[string]any{"manifests": []any{map[string]any{
			"digest":      digest(i),
			"annotations": map[string]string{"org.opencontainers.image.ref.name": r.registry + "/" + part.name + ":" + r.version + part.minor},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		var layout bytes.Buffer
		w := tar.NewWriter(&layout)
		if err := w.WriteHeader(&tar.Header{Name: "index.json", Size: int64(len(index)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(index); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, name+".tar"), layout.Bytes())
		write(t, filepath.Join(folder, name+"-linux-amd64.spdx.json"), []byte(name))
		write(t, filepath.Join(folder, "linux-amd64", name), []byte(name))
	}
	return r
}

// tool builds a tool that hack/tools pins, and returns its path.
func tool(t *testing.T, name string) string {
	t.Helper()
	tools.Lock()
	defer tools.Unlock()
	if path, ok := tools.paths[name]; ok {
		return path
	}
	path, err := release{source: top}.output(t.Context(), "hack/tools/install.sh", name)
	if err != nil {
		t.Fatal(err)
	}
	tools.paths[name] = path
	return path
}

var tools = struct {
	sync.Mutex
	paths map[string]string
}{paths: map[string]string{}}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, folder, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// git runs git in the checkout, without the user's configuration.
func git(t *testing.T, r release, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Dir, cmd.Env = r.source, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", args[0], err, out)
	}
}

func commit(t *testing.T, r release) {
	t.Helper()
	git(t, r, "add", "--all")
	git(t, r, "commit", "--quiet", "--message=all")
}
