// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenRejects(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/d", 0o700))
	must(t, os.Symlink(dir+"/d", dir+"/link"))
	must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	write(t, dir+"/file", "x")
	for name, path := range map[string]string{
		"a symlink":                   dir + "/link",
		"a symlink and a slash":       dir + "/link/",
		"a symlink and a dot":         dir + "/link/.",
		"a file":                      dir + "/file",
		"a FIFO, which is not opened": dir + "/fifo",
		"nothing":                     dir + "/missing",
		"the root of the node":        "/",
		"the root by another name":    "/..",
		"a relative path":             "d",
		"no path":                     "",
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := Open(path, nil); err == nil {
				t.Errorf("%q was opened: %+v", path, r)
			}
		})
	}
	if _, err := Open(dir+"/d/", nil); err != nil {
		t.Errorf("a directory: %v", err)
	}
}

func TestEveryMethodVerifies(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", "alive")
	refused := errors.New("another disk")
	var answer error
	calls := 0
	r, err := Open(dir, func(fd int) error {
		calls++
		var st unix.Stat_t
		return errors.Join(answer, unix.Fstat(fd, &st))
	})
	must(t, err)
	answer = refused
	before := descriptors(t)
	for name, method := range map[string]func() error{
		"Clean":   func() error { return r.Clean(t.Context(), nil) },
		"Run":     func() error { return r.Run(t.Context(), []string{"/bin/rm", dir + "/file"}) },
		"Empty":   func() error { _, _, err := r.Empty(t.Context()); return err },
		"Record":  func() error { _, err := r.Record(); return err },
		"Restore": func() error { return r.Restore([]byte(`{"mode":0}`)) },
	} {
		calls = 0
		if err := method(); !errors.Is(err, refused) || calls != 1 {
			t.Errorf("%s: %v after %d verifications", name, err, calls)
		}
	}
	if _, err := Open(dir, func(int) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("Open: %v", err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if _, err := os.Stat(dir + "/file"); err != nil {
		t.Error(err)
	}
}

func TestMountOverTheRoot(t *testing.T) {
	root := mount(t, "tmpfs")
	write(t, root+"/below", "alive")
	r := open(t, root)
	over := t.TempDir()
	write(t, over+"/canary", "alive")
	must(t, unix.Mount(over, root, "", unix.MS_BIND, ""))
	if err := r.Clean(t.Context(), nil); !errors.Is(err, ErrReplaced) {
		t.Errorf("Clean: %v", err)
	}
	must(t, unix.Unmount(root, 0))
	for _, path := range []string{over + "/canary", root + "/below"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	must(t, r.Clean(t.Context(), nil))
}
