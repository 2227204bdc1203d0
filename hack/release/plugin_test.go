// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestPlugin(t *testing.T) {
	r := newCheckout(t)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := r.packPlugin([]string{"linux-amd64", "windows-arm64"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kubectl-stowage-linux-amd64.tar.gz", "kubectl-stowage-windows-arm64.zip", "stowage.yaml"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	want := map[string][]string{
		"tar": {"LICENSE -rw-r--r-- 2026-01-01", "kubectl-stowage -rwxr-xr-x 2026-01-01", "kubectl_complete-stowage -rwxr-xr-x 2026-01-01"},
		"zip": {"LICENSE -rw-r--r-- 2026-01-01", "kubectl-stowage.exe -rwxr-xr-x 2026-01-01", "kubectl_complete-stowage.cmd -rwxr-xr-x 2026-01-01"},
	}
	tarred, zipped := read(t, r.out, files[0]), read(t, r.out, files[1])
	if diff := cmp.Diff(want, map[string][]string{"tar": inTar(t, tarred), "zip": inZip(t, zipped)}); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}

	var got krewPlugin
	if err := yaml.UnmarshalStrict(read(t, r.out, "stowage.yaml"), &got); err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, platform := range got.Spec.Platforms {
		platforms = append(platforms, fmt.Sprintf("%v %s %s %s", platform.Selector.MatchLabels, platform.URI, platform.SHA256, platform.Bin))
	}
	if diff := cmp.Diff([]string{
		fmt.Sprintf("map[arch:amd64 os:linux] https://example.com/v1.2.3/kubectl-stowage-linux-amd64.tar.gz %x kubectl-stowage", sha256.Sum256(tarred)),
		fmt.Sprintf("map[arch:arm64 os:windows] https://example.com/v1.2.3/kubectl-stowage-windows-arm64.zip %x kubectl-stowage.exe", sha256.Sum256(zipped)),
	}, platforms); diff != "" || got.Spec.Version != "v1.2.3" {
		t.Errorf("version %s, platforms (-want +got):\n%s", got.Spec.Version, diff)
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-4-gabc-dirty": "v1.2.3-4-gabc-dirty", "0123456": "v0.0.0-build-0123456", "unknown": "v0.0.0-build-unknown", "1.2.3": "v0.0.0-build-1.2.3", "v1.2": "v0.0.0-build-v1.2",
	} {
		if got := krewVersion(version); got != want {
			t.Errorf("version %s: %s, want %s", version, got, want)
		}
	}
}

func TestPluginRefuses(t *testing.T) {
	r := newCheckout(t)
	for name, test := range map[string]struct {
		platforms []string
		want      string
	}{
		"no platform":                   {nil, "name the platforms of the plugin"},
		"a platform that was not built": {[]string{"linux-arm64"}, "linux-arm64/kubectl-stowage: no such file"},
		"an operating system alone":     {[]string{"linux"}, "pack the plugin for linux: must be OS-ARCHITECTURE"},
	} {
		r.out = t.TempDir()
		if _, err := r.packPlugin(test.platforms); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %q in it", name, err, test.want)
		}
	}
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
