// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestNestedMountsStopTheClean(t *testing.T) {
	tests := map[string]func(t *testing.T, root, outside string) (at string){
		"another file system": func(t *testing.T, root, _ string) string {
			at := root + "/d/other fs"
			must(t, os.MkdirAll(at, 0o700))
			mountOn(t, "tmpfs", at, "tmpfs", 0)
			write(t, at+"/canary", "alive")
			t.Cleanup(func() {
				if _, err := os.Stat(at + "/canary"); err != nil {
					t.Errorf("the canary in the mount: %v", err)
				}
			})
			return at
		},
		"a folder from outside": func(t *testing.T, root, outside string) string {
			at := root + "/d"
			must(t, os.Mkdir(at, 0o700))
			mountOn(t, outside+"/folder", at, "", unix.MS_BIND)
			return at
		},
		"a folder of the same file system": func(t *testing.T, root, _ string) string {
			must(t, os.MkdirAll(root+"/d", 0o700))
			must(t, os.MkdirAll(root+"/e/f", 0o700))
			write(t, root+"/d/file", "x")
			mountOn(t, root+"/d", root+"/e/f", "", unix.MS_BIND)
			return root + "/e/f"
		},
		"a file from outside": func(t *testing.T, root, outside string) string {
			write(t, root+"/file", "")
			mountOn(t, outside+"/folder/canary", root+"/file", "", unix.MS_BIND)
			return root + "/file"
		},
		"on lost+found": func(t *testing.T, root, outside string) string {
			must(t, os.MkdirAll(root+"/lost+found", 0o700))
			mountOn(t, outside+"/folder", root+"/lost+found", "", unix.MS_BIND)
			return root + "/lost+found"
		},
	}
	for name, nest := range tests {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, root string) {
				at := nest(t, root, outside(t))
				write(t, root+"/file beside", "alive")
				r := open(t, root)
				var nested *NestedMountError
				if err := r.Clean(t.Context(), nil); !errors.As(err, &nested) || nested.Path != at {
					t.Errorf("Clean returns %v, want that %s is a mount", err, at)
				}
				if _, err := os.Stat(root + "/file beside"); err != nil {
					t.Errorf("something was deleted before the mount was found: %v", err)
				}
				// As if it was mounted after the mount table was read.
				err := r.do(func(fd int) error { return r.passes(t.Context(), fd, &reporter{every: time.Hour}) })
				if !errors.As(err, &nested) || nested.Path != at {
					t.Errorf("the walk returns %v, want that %s is a mount", err, at)
				}
				if content, _, err := r.Empty(t.Context()); err != nil || content != disk.ContentSome {
					t.Errorf("Empty returns %s, %v", content, err)
				}
			})
		})
	}
}

func mountOn(t *testing.T, source, at, kind string, flags uintptr) {
	t.Helper()
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.UMOUNT_NOFOLLOW); err != nil {
			t.Errorf("unmount %s: %v", at, err)
		}
	})
	must(t, unix.Mount(source, at, kind, flags, ""))
}

func TestMountsOfTheHostStopTheClean(t *testing.T) {
	root := mount(t, "tmpfs")
	write(t, root+"/file", "alive")
	r := open(t, root)
	r.BeforeClean = func() error { return &NestedMountError{Path: "/var/somewhere"} }
	for name, clean := range map[string]func() error{
		"Clean": func() error { return r.Clean(t.Context(), nil) },
		"Run":   func() error { return r.Run(t.Context(), []string{"/bin/rm", root + "/file"}) },
	} {
		var nested *NestedMountError
		if err := clean(); !errors.As(err, &nested) || nested.Path != "/var/somewhere" {
			t.Errorf("%s returns %v", name, err)
		}
	}
	if _, err := os.Stat(root + "/file"); err != nil {
		t.Error(err)
	}
}
