// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKubernetesVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		goMod string
		want  []string
	}{
		"in a block":        {goMod: "require (\n\tk8s.io/api v0.1.0\n\tk8s.io/kubernetes v1.37.1\n)\n", want: []string{"v1.37.1", "1", "37"}},
		"with a comment":    {goMod: "require (\n\tk8s.io/kubernetes v1.2.3 // indirect\n)\n", want: []string{"v1.2.3", "1", "2"}},
		"on a line":         {goMod: "require k8s.io/kubernetes v2.0.0-rc.1\n", want: []string{"v2.0.0-rc.1", "2", "0"}},
		"not a replacement": {goMod: "replace k8s.io/kubernetes => k8s.io/kubernetes v1.2.3\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			if m := kubernetesVersion.FindStringSubmatch(tc.goMod); m != nil {
				got = m[1:]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestModulesAgree: the control plane is of the version that the product is built for, and built
// with the staging modules of that version.
func TestModulesAgree(t *testing.T) {
	for _, minor := range minorsOf(t) {
		t.Run(minor, func(t *testing.T) {
			t.Setenv(KubeEnv, minor)
			src := must[sources](t)(findSources())
			m := must[module](t)(src.kubernetes())
			if !strings.HasPrefix(m.version, "v"+minor+".") {
				t.Errorf("%s requires Kubernetes %s, want one of %s", m.dir, m.version, minor)
			}
			goMod := must[[]byte](t)(os.ReadFile(filepath.Join(m.dir, "go.mod")))
			staged := regexp.MustCompile(`(?m)^replace (k8s\.io/\S+) => (\S+) v0\.(\S+)$`).FindAllSubmatch(goMod, -1)
			if len(staged) < 30 {
				t.Errorf("%s replaces %d modules, want all of staging", m.dir, len(staged))
			}
			for _, found := range staged {
				if !bytes.Equal(found[1], found[2]) || "v1."+string(found[3]) != m.version {
					t.Errorf("%s has %q, want the module of %s", m.dir, found[0], m.version)
				}
			}
			product := must[[]byte](t)(os.ReadFile(filepath.Join(src.root, src.modFile)))
			required := kubernetesVersion.FindSubmatch(product)
			if required == nil || string(required[1]) != m.version {
				t.Errorf("%s requires Kubernetes %s, want %s, which %s has", src.modFile, required, m.version, m.dir)
			}
		})
	}
}

// minorsOf are the versions that an error names.
func minorsOf(t *testing.T) []string {
	t.Helper()
	t.Setenv(KubeEnv, "0.1")
	_, err := findSources()
	if err == nil {
		t.Fatal("finds a control plane of Kubernetes 0.1")
	}
	message, minors, _ := strings.Cut(err.Error(), " to one of ")
	if want := `no control plane of Kubernetes "0.1": set ` + KubeEnv; message != want {
		t.Fatalf("error %q, want %q", message, want)
	}
	return strings.Split(minors, ", ")
}

func TestSelectedVersion(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	if diff := cmp.Diff([]string{"1.35", "1.36", "1.37"}, minorsOf(t)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	for _, tc := range []struct{ set, minor, modFile string }{
		{"", "1.37", "go.mod"}, {"1.37", "1.37", "go.mod"}, {"1.36", "1.36", "go-1.36.mod"},
	} {
		t.Setenv(KubeEnv, tc.set)
		if got, err := findSources(); err != nil || got.minor != tc.minor || got.modFile != tc.modFile {
			t.Errorf("%s=%s selects %s of %s, %v; want %s of %s", KubeEnv, tc.set, got.minor, got.modFile, err, tc.minor, tc.modFile)
		}
	}
	for _, set := range []string{"v1.36", "1.36.3", "1.3*", "kwok", "../1.36"} {
		t.Setenv(KubeEnv, set)
		if _, err := Build(t.Context(), BuildOptions{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", set)) {
			t.Errorf("%s=%s: %v, want an error that has it", KubeEnv, set, err)
		}
	}
}

func TestBuildFindsFinishedBinaries(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(CacheEnv, cache)
	src := must[sources](t)(findSources())
	kubernetes, kwok := must[module](t)(src.kubernetes()), must[module](t)(src.kwok())
	for m, prefix := range map[module]string{kubernetes: kubernetes.version + "-", kwok: "kwok-" + kwok.version + "-"} {
		if filepath.Dir(m.cache) != cache || !strings.HasPrefix(filepath.Base(m.cache), prefix) {
			t.Errorf("binaries of %s go to %s, want a folder of %s named %s and a hash", m.product, m.cache, cache, prefix)
		}
	}
	none := Binaries{Minor: src.minor}
	if missing := len(kubernetes.locate(none.targets())) + len(kwok.locate(none.kwokTargets())); missing != 5 {
		t.Errorf("%d binaries are missing from an empty cache, want 5", missing)
	}
	if _, err := Build(t.Context(), BuildOptions{Cached: true}); err == nil || !strings.Contains(err.Error(), "is not complete in "+kubernetes.cache) {
		t.Errorf("with an empty cache: %v, want an error that names its folder", err)
	}
	for _, dir := range []string{kubernetes.cache, kwok.cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{none.Etcd, none.APIServer, none.ControllerManager, none.Scheduler, none.Kwok} {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var progress bytes.Buffer
	got, err := Build(t.Context(), BuildOptions{Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(none, got); diff != "" {
		t.Errorf("binaries (-want +got):\n%s", diff)
	}
	if err := got.check(); err != nil {
		t.Error(err)
	}
	if progress.Len() > 0 {
		t.Errorf("nothing had to be built, but progress is:\n%s", &progress)
	}
	if _, err := Build(t.Context(), BuildOptions{Cached: true, Args: []string{"-gcflags=all=-l"}}); err == nil || !strings.Contains(err.Error(), "is not complete in "+kubernetes.cache+"-") {
		t.Errorf("with other arguments: %v, want an error that names another folder", err)
	}
}

// TestBuildCommand builds a small program with an empty cache, and again after a build that was
// killed.
func TestBuildCommand(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	const program = productModule + "/hack/requirements"
	built, err := BuildCommand(t.Context(), BuildOptions{}, program)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(built)
	if err := errors.Join(os.Remove(built), os.Mkdir(filepath.Join(dir, unfinished), 0o755)); err != nil {
		t.Fatal(err)
	}
	again, err := BuildCommand(t.Context(), BuildOptions{}, program)
	if err != nil || again != built {
		t.Errorf("built %s again, %v; want %s", again, err, built)
	}
	out, err := exec.CommandContext(t.Context(), built).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "usage: requirements") {
		t.Errorf("the built binary printed %q, %v", out, err)
	}
	if _, err := BuildCommand(t.Context(), BuildOptions{}, program+"/missing"); err == nil || !strings.Contains(err.Error(), "no required module provides package "+program+"/missing") {
		t.Errorf("building a missing package: %v, want what the go command printed", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("in the cache: %v, %v; want the binary and the lock alone", left, err)
	}
}

func TestExecutable(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubectl": "kubectl",
		"go.etcd.io/etcd/server/v3":     "server",
	} {
		if got := (target{pkg: pkg}).executable(); got != want {
			t.Errorf("the file that go makes of %s is %s, want %s", pkg, got, want)
		}
	}
}

// TestProgress: hack/progress.sh prints progress for packages, and passes on all other lines.
func TestProgress(t *testing.T) {
	t.Parallel()
	script := filepath.Join(must[sources](t)(findSources()).root, "hack", "progress.sh")
	tests := map[string]struct{ in, progress, failures string }{
		"nothing to compile": {},
		"packages": {
			in:       "internal/goarch\ngo.etcd.io/etcd/server/v3\n",
			progress: "     0s  1 packages compiled, at internal/goarch\n     0s  2 packages compiled\n",
		},
		"an error":                    {in: "# a.b/c\nc.go:1:1: expected 'package'\n", failures: "# a.b/c\nc.go:1:1: expected 'package'\n"},
		"a last line without its end": {in: "cannot load a.b/c", failures: "cannot load a.b/c\n"},
	}
	seconds := regexp.MustCompile(` +\d+s  `)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), script)
			var progress, failures bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tc.in), &progress, &failures
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			got := []string{seconds.ReplaceAllString(progress.String(), "     0s  "), failures.String()}
			if diff := cmp.Diff([]string{tc.progress, tc.failures}, got); diff != "" {
				t.Errorf("progress and errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder")
	never := func() { t.Error("waits although the lock is free") }
	unlock, err := lockFolder(t.Context(), path, never)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lockFolder(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a second lock: %v, want it to wait until its context ends", err)
	}
	unlock, err = lockFolder(t.Context(), path, unlock)
	if err != nil {
		t.Fatalf("once the first is unlocked: %v", err)
	}
	unlock()
}
