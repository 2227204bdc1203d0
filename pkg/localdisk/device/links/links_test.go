// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package links_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/device/links"
)

func TestFolder(t *testing.T) {
	base := t.TempDir()
	f := links.Folder{Base: base, Path: filepath.Join(base, "stowage/disks")}
	link := filepath.Join(f.Path, "fast", "local-pv-1")
	expect := func(want string) {
		t.Helper()
		got, err := f.LinkTarget(link)
		if err != nil || got != want {
			t.Errorf("the link leads to %q (%v), want %q", got, err, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect("")
	do(f.RemoveLink(link))
	do(f.PutLink(link, "/dev/sdb"))
	expect("/dev/sdb")
	do(f.PutLink(link, "/dev/sdc"))
	expect("/dev/sdc")
	entries, err := os.ReadDir(filepath.Dir(link))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v (%v), want the link alone", entries, err)
	}
	other := filepath.Join(f.Path, "fast", "local-pv-2")
	do(f.PutLink(other, "/dev/sdd"))
	do(f.RemoveLink(link))
	expect("")
	if target, _ := f.LinkTarget(other); target != "/dev/sdd" {
		t.Errorf("the link beside it leads to %q now", target)
	}
	do(f.RemoveLink(other))
	if _, err := os.Lstat(filepath.Dir(link)); !os.IsNotExist(err) {
		t.Errorf("the empty folder of the class stays: %v", err)
	}
}

// TestFolderRejects: no link is made through a folder that others can change.
func TestFolderRejects(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, base string){
		"a folder that others can write": func(t *testing.T, base string) {
			make0(t, filepath.Join(base, "stowage/disks"))
			if err := os.Chmod(filepath.Join(base, "stowage"), 0o777); err != nil {
				t.Fatal(err)
			}
		},
		"a symlink instead of the folder": func(t *testing.T, base string) {
			make0(t, filepath.Join(base, "elsewhere/fast"))
			make0(t, filepath.Join(base, "stowage"))
			if err := os.Symlink(filepath.Join(base, "elsewhere"), filepath.Join(base, "stowage/disks")); err != nil {
				t.Fatal(err)
			}
		},
		"a file instead of the folder": func(t *testing.T, base string) {
			if err := os.WriteFile(filepath.Join(base, "stowage"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			prepare(t, base)
			f := links.Folder{Base: base, Path: filepath.Join(base, "stowage/disks")}
			if err := f.PutLink(filepath.Join(f.Path, "fast/local-pv-1"), "/dev/sdb"); err == nil {
				t.Error("a link was made")
			}
			if _, err := os.Lstat(filepath.Join(base, "elsewhere/fast/local-pv-1")); err == nil {
				t.Error("a link was made elsewhere")
			}
		})
	}
}

func TestFolderNames(t *testing.T) {
	base := t.TempDir()
	f := links.Folder{Base: base, Path: filepath.Join(base, "stowage/disks")}
	bad := map[string]bool{}
	for _, link := range []string{"", "/", base, f.Path, f.Path + "/fast", f.Path + "/fast/", f.Path + "/fast/a/b", f.Path + "/../../x", f.Path + "/fast/..", f.Path + "2/fast/a", "fast/a"} {
		bad[link] = f.PutLink(link, "/dev/sdb") != nil && f.RemoveLink(link) != nil
	}
	for link, refused := range bad {
		if diff := cmp.Diff(true, refused); diff != "" {
			t.Errorf("%q counts as a link", link)
		}
	}
}

func make0(t *testing.T, folder string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestReplace: a folder has exactly the links of the last call, and stays if it has none.
func TestReplace(t *testing.T) {
	t.Parallel()
	folder := links.Folder{Base: t.TempDir()}
	folder.Path = filepath.Join(folder.Base, "stowage/devices")
	for _, want := range []map[string]string{
		{"a": "/dev/sda", "b": "/dev/sdb"}, {"a": "/dev/sdc", "b": "/dev/sdb"}, {"c": "/dev/sdc"}, {}, {"c": "/dev/sdd"},
	} {
		if err := folder.Replace("fast", want); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		entries, err := os.ReadDir(filepath.Join(folder.Path, "fast"))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if found[entry.Name()], err = os.Readlink(filepath.Join(folder.Path, "fast", entry.Name())); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if err := os.MkdirAll(filepath.Join(folder.Path, "fast/other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := folder.Replace("fast", nil); err == nil {
		t.Error("a directory was removed, or ignored")
	}
}
