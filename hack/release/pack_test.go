// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

var plugins = []string{"linux-amd64", "windows-arm64"}

// packed is a release that is packed.
func packed(t *testing.T) release {
	t.Helper()
	r := build(t)
	if err := r.pack(t.Context(), plugins, t.Output()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPack: the release has these files, and sha256sum accepts them.
func TestPack(t *testing.T) {
	t.Parallel()
	r := packed(t)
	want := []string{
		"RELEASE_NOTES.md", "SHA256SUMS", "images.txt", "kubectl-stowage-linux-amd64.tar.gz", "kubectl-stowage-windows-arm64.zip", "provenance.intoto.json",
		"stowage-1.2.3.tgz", "stowage-default-v1.2.3.yaml", "stowage-manifests-v1.2.3.tar.gz", "stowage-v1.2.3-linux-amd64.tar.gz", "stowage.yaml",
	}
	binaries, lines := []string{"LICENSE -rw-r--r-- 2026-01-01"}, []string{}
	for i, part := range parts {
		want = append(want, part.name+part.minor+".tar", part.name+part.minor+"-linux-amd64.spdx.json")
		binaries = append(binaries, part.name+part.minor+" -rwxr-xr-x 2026-01-01")
		lines = append(lines, fmt.Sprintf("registry.example/team/%s:v1.2.3%s@%s\n", part.name, part.minor, digest(i)))
	}
	list := strings.Join(lines, "")
	slices.Sort(want)
	got, err := r.files()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(binaries, inTar(t, read(t, r.out, "stowage-v1.2.3-linux-amd64.tar.gz"))); diff != "" {
		t.Errorf("binaries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(list, string(read(t, r.out, "images.txt"))); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	sums, err := release{source: r.out}.output(t.Context(), "sha256sum", "--check", "SHA256SUMS")
	if n := strings.Count(sums, ": OK"); err != nil || n != len(want)-1 {
		t.Errorf("sha256sum accepts %d of %d files: %v", n, len(want)-1, err)
	}
	notes := string(read(t, r.out, "RELEASE_NOTES.md"))
	for _, text := range []string{
		"### Fixed\n", list,
		"git checkout v1.2.3 && make release VERSION=v1.2.3 REGISTRY=registry.example/team DOWNLOADS=https://example.com/v1.2.3/\n",
	} {
		if !strings.Contains(notes, text) {
			t.Errorf("notes lack %q:\n%s", text, notes)
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(r.out), ".unfinished-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSameEveryTime: the files do not depend on the folders, modes and times of what is packed, nor on the time zone and the
// language.
func TestSameEveryTime(t *testing.T) {
	first := packed(t)

	defer syscall.Umask(syscall.Umask(0o077))
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("LC_ALL", "tr_TR.UTF-8")
	second := build(t)
	at := time.Unix(1, 0)
	for _, folder := range []string{second.source, second.bin} {
		if err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, at, at))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := second.pack(t.Context(), plugins, t.Output()); err != nil {
		t.Fatal(err)
	}
	files, err := second.files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !slices.Equal(read(t, first.out, name), read(t, second.out, name)) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestProvenance: the statement is valid, and names all files, all images, and what they are made of.
func TestProvenance(t *testing.T) {
	t.Parallel()
	r := packed(t)
	var statement intoto.Statement
	if err := protojson.Unmarshal(read(t, r.out, "provenance.intoto.json"), &statement); err != nil {
		t.Fatal(err)
	}
	if err := statement.Validate(); err != nil {
		t.Error(err)
	}
	var made provenance.Provenance
	if err := convert(statement.GetPredicate(), &made); err != nil {
		t.Fatal(err)
	}
	if err := made.Validate(); err != nil {
		t.Error(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(read(t, r.out, "SHA256SUMS"))) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = hash
	}
	delete(want, "provenance.intoto.json")
	for i, part := range parts {
		want[r.registry+"/"+part.name+":v1.2.3"+part.minor] = strings.TrimPrefix(digest(i), "sha256:")
	}
	got := map[string]string{}
	for _, subject := range statement.GetSubject() {
		got[subject.GetName()] = subject.GetDigest()["sha256"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	checkBuild(t, r, made.GetBuildDefinition())
}

// checkBuild checks what a statement says the release is made of.
func checkBuild(t *testing.T, r release, build *provenance.BuildDefinition) {
	t.Helper()
	parameters := map[string]any{"VERSION": "v1.2.3", "REGISTRY": "registry.example/team", "DOWNLOADS": "https://example.com/v1.2.3/"}
	if diff := cmp.Diff(parameters, build.GetExternalParameters().AsMap()); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	modules, err := sum(filepath.Join(r.source, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	toolchain, err := r.goVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var dependencies []string
	for _, d := range build.GetResolvedDependencies() {
		dependencies = append(dependencies, fmt.Sprint(d.GetName(), " ", d.GetDigest()))
	}
	want := []string{"source map[gitCommit:" + r.revision + "]", toolchain + " map[]", "go.sum map[sha256:" + modules + "]"}
	if diff := cmp.Diff(want, dependencies); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
}

// TestPackRefuses: a release that is not whole is not written.
func TestPackRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*testing.T, *release)
		want   string
	}{
		"images of another registry": {func(_ *testing.T, r *release) { r.registry = "registry.example/other" },
			"its registry is registry.example/team, but -registry=registry.example/other"},
		"no images":        {func(_ *testing.T, r *release) { r.bin = "absent" }, "no images: make release builds them"},
		"a binary is gone": {remove("linux-amd64/stowage-csi"), "linux-amd64/stowage-csi: no such file"},
		"an image is gone": {remove("stowage-csi.tar"), "manifests/images has image stowage-csi"},
		"a chart that does not name the registry": {func(t *testing.T, r *release) {
			write(t, filepath.Join(r.source, "manifests/charts/stowage/values.yaml"), []byte("image: {}\n"))
		}, `values.yaml has "  registry: stowage.dev\n" 0 times, want once`},
		"a chart that Helm rejects": {func(t *testing.T, r *release) {
			write(t, filepath.Join(r.source, "manifests/charts/stowage/Chart.yaml"), []byte("name: stowage\n"))
		}, "pack the chart: helm package"},
	} {
		t.Run(name, func(t *testing.T) {
			r := build(t)
			test.change(t, &r)
			if err := r.pack(t.Context(), plugins, t.Output()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
			if _, err := os.Stat(r.out); err == nil {
				t.Error("it was written")
			}
		})
	}
}

func remove(part string) func(*testing.T, *release) {
	return func(t *testing.T, r *release) {
		if err := os.Remove(filepath.Join(r.bin, "release", "parts", part)); err != nil {
			t.Fatal(err)
		}
	}
}
