// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// built is a folder with binaries that only say their platform.
func built(t *testing.T) packing {
	t.Helper()
	p := packing{folder: t.TempDir(), source: "../..", version: "v1.2.3", downloads: "https://example.com/v1.2.3/", created: time.Unix(1767225600, 0).UTC()}
	for platform, binary := range map[string]string{"linux-amd64": "kubectl-stowage", "windows-arm64": "kubectl-stowage.exe"} {
		if err := os.Mkdir(filepath.Join(p.folder, platform), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.folder, platform, binary), []byte(platform), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestArchives(t *testing.T) {
	p := built(t)
	if err := p.run([]string{"linux-amd64", "windows-arm64"}); err != nil {
		t.Fatal(err)
	}
	first, zipped := read(t, p.folder, "kubectl-stowage-linux-amd64.tar.gz"), read(t, p.folder, "kubectl-stowage-windows-arm64.zip")
	want := map[string][]string{
		"tar": {"LICENSE -rw-r--r-- 2026-01-01", "kubectl-stowage -rwxr-xr-x 2026-01-01", "kubectl_complete-stowage -rwxr-xr-x 2026-01-01"},
		"zip": {"LICENSE -rw-r--r-- 2026-01-01", "kubectl-stowage.exe -rwxr-xr-x 2026-01-01", "kubectl_complete-stowage.cmd -rwxr-xr-x 2026-01-01"},
	}
	if diff := cmp.Diff(want, map[string][]string{"tar": inTar(t, first), "zip": inZip(t, zipped)}); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	var got krewPlugin
	if err := yaml.UnmarshalStrict(read(t, p.folder, "stowage.yaml"), &got); err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, platform := range got.Spec.Platforms {
		platforms = append(platforms, fmt.Sprintf("%v %s %s %s", platform.Selector.MatchLabels, platform.URI, platform.SHA256, platform.Bin))
	}
	if diff := cmp.Diff([]string{
		"map[arch:amd64 os:linux] https://example.com/v1.2.3/kubectl-stowage-linux-amd64.tar.gz " + sum(first) + " kubectl-stowage",
		"map[arch:arm64 os:windows] https://example.com/v1.2.3/kubectl-stowage-windows-arm64.zip " + sum(zipped) + " kubectl-stowage.exe",
	}, platforms); diff != "" || got.Spec.Version != "v1.2.3" {
		t.Errorf("version %s, platforms (-want +got):\n%s", got.Spec.Version, diff)
	}

	again := built(t)
	if err := again.run([]string{"linux-amd64", "windows-arm64"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubectl-stowage-linux-amd64.tar.gz", "kubectl-stowage-windows-arm64.zip", "stowage.yaml"} {
		if !bytes.Equal(read(t, p.folder, name), read(t, again.folder, name)) {
			t.Errorf("%s is not the same when it is packed again", name)
		}
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-4-gabc-dirty": "v1.2.3-4-gabc-dirty", "0123456": "v0.0.0-build-0123456", "unknown": "v0.0.0-build-unknown", "1.2.3": "v0.0.0-build-1.2.3",
	} {
		if got := krewVersion(version); got != want {
			t.Errorf("version %s: %s, want %s", version, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	p := built(t)
	for name, platforms := range map[string][]string{
		"no platform": nil, "a platform that was not built": {"linux-arm64"}, "an operating system alone": {"linux"},
	} {
		if err := p.run(platforms); err == nil {
			t.Errorf("%s: no error", name)
		}
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

func inTar(t *testing.T, content []byte) (files []string) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, fmt.Sprintf("%s %s %s", header.Name, header.FileInfo().Mode(), header.ModTime.UTC().Format(time.DateOnly)))
	}
}

func inZip(t *testing.T, content []byte) (files []string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		files = append(files, fmt.Sprintf("%s %s %s", f.Name, f.Mode(), f.Modified.UTC().Format(time.DateOnly)))
	}
	return files
}
