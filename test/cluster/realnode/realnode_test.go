// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		slot  slot
		index int
		want  []string
	}{
		"the first":                    {0, 1, []string{"stowage0", "198.18.0.1", "198.18.0.2", "198.18.1.0/24", "02:73:74:00:00:01"}},
		"another node":                 {0, 15, []string{"stowage0", "198.18.0.1", "198.18.0.16", "198.18.15.0/24", "02:73:74:00:00:0f"}},
		"another cluster":              {1, 1, []string{"stowage1", "198.18.16.1", "198.18.16.2", "198.18.17.0/24", "02:73:74:00:01:01"}},
		"the second half of the range": {16, 2, []string{"stowage16", "198.19.0.1", "198.19.0.3", "198.19.2.0/24", "02:73:74:00:10:02"}},
		"the last":                     {slots - 1, maxNodes, []string{"stowage31", "198.19.240.1", "198.19.240.16", "198.19.255.0/24", "02:73:74:00:1f:0f"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.slot
			got := []string{s.device(), s.machine(), s.node(tc.index), s.pods(tc.index), s.hardware(tc.index)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	disk := func(kind DiskKind, path string, size int64) NodeSpec {
		return NodeSpec{Name: "a", Disks: []Disk{{Kind: kind, Path: path, Size: size}}}
	}
	tests := map[string]struct {
		spec NodeSpec
		want string
	}{
		"a name":                   {spec: NodeSpec{Name: "a"}},
		"no name":                  {NodeSpec{}, "add node \"\": a lowercase RFC 1123 label"},
		"a folder needs no size":   {spec: disk(Directory, "/mnt/a", 0)},
		"a device needs a size":    {disk(Block, "/mnt/a", 0), "Size must be at least 1 MiB, got 0"},
		"a kind that is not one":   {disk("floppy", "/mnt/a", 1<<20), "Kind must be one of ext4, tmpfs, block and directory"},
		"a path that is not one":   {disk(Ext4, "mnt/a", 1<<20), "Path must be absolute and clean"},
		"a path that is not clean": {disk(Ext4, "/mnt/../a", 1<<20), "Path must be absolute and clean"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.spec.check()
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "image.tar")
	image := Image{Reference: "example.com/a:b", Command: []string{"/bin/a"}, Files: map[string]string{"/bin/a": program}, Links: map[string]string{"/bin/b": "a"}}
	if err := image.Write(file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := untar(t, data)
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal([]byte(archive["manifest.json"]), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || len(manifest[0].Layers) != 1 || archive[manifest[0].Config] == "" {
		t.Fatalf("manifest %+v", manifest)
	}
	if diff := cmp.Diff([]string{"example.com/a:b"}, manifest[0].RepoTags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	want := map[string]string{"tmp/": "", "bin/a": "#!", "bin/b": "-> a"}
	if diff := cmp.Diff(want, untar(t, []byte(archive[manifest[0].Layers[0]]))); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	image.Files["/missing"] = filepath.Join(dir, "missing")
	if err := image.Write(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// untar returns the contents of files, and targets of links, by name.
func untar(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
		if h.Typeflag == tar.TypeSymlink {
			files[h.Name] = "-> " + h.Linkname
		}
	}
}
