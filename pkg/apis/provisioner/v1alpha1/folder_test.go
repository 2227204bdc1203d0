// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, folder string, data map[string]string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range data {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// mounted creates a folder as kubelet mounts a ConfigMap.
func mounted(t *testing.T, data map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "..2026_01_01_00_00_00.1"), data)
	link(t, "..2026_01_01_00_00_00.1", filepath.Join(folder, "..data"))
	for name := range maps.Keys(data) {
		link(t, filepath.Join("..data", name), filepath.Join(folder, name))
	}
	return folder
}

func TestDecodeFolder(t *testing.T) {
	t.Parallel()
	want, err := Decode(everything())
	if err != nil {
		t.Fatal(err)
	}
	plain := t.TempDir()
	write(t, plain, everything())
	write(t, plain, map[string]string{"..swap": "not: [a, key"})
	for name, folder := range map[string]string{"a mounted ConfigMap": mounted(t, everything()), "a plain folder": plain} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DecodeFolder(folder)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodeFolderReadsOneVersion: kubelet replaces the link ..data, and the links of the keys
// later; those of a removed key may dangle.
func TestDecodeFolderReadsOneVersion(t *testing.T) {
	t.Parallel()
	folder := mounted(t, everything())
	write(t, filepath.Join(folder, "..2026_01_01_00_00_00.2"), classMap("new: {hostDir: /mnt/new}"))
	link(t, "..2026_01_01_00_00_00.2", filepath.Join(folder, "..data_tmp"))
	if err := os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")); err != nil {
		t.Fatal(err)
	}
	config, err := DecodeFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	if config.Classes["new"].HostDir != "/mnt/new" || *config.MaxCleaning != defaultMaxCleaning {
		t.Errorf("got %+v, want the second version only", config)
	}
}

func TestDecodeFolderErrors(t *testing.T) {
	t.Parallel()
	bad, nested, large := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, bad, map[string]string{"storageClasMap": "{}"})
	write(t, filepath.Join(nested, classMapKey), nil)
	write(t, large, classMap(strings.Repeat("#", maxFileBytes+1)))
	tests := map[string]struct {
		folder string
		want   string
	}{
		"a folder that does not exist": {filepath.Join(bad, "absent"), "no such file or directory"},
		"a key that is a folder":       {nested, "the folder must hold a file for each key and nothing else"},
		"more than a ConfigMap has":    {large, "is larger than a ConfigMap can be"},
		"a misspelt key":               {bad, "storageClasMap: Forbidden: unknown key"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := DecodeFolder(test.folder)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := DecodeFolder(filepath.Join(bad, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want one that is fs.ErrNotExist", err)
	}
}
