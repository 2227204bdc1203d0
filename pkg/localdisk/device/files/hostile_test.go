// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// An entry may have become anything since the walk examined it.
func TestEntryExchangedAfterStat(t *testing.T) {
	fs := mount(t, "tmpfs")
	root := fs + "/volume"
	must(t, os.MkdirAll(root+"/directory/in", 0o700))
	must(t, os.Mkdir(fs+"/outside", 0o700))
	write(t, fs+"/outside/canary", "alive")
	write(t, root+"/file", "x")
	must(t, os.Symlink("../outside", root+"/symlink"))
	must(t, os.Symlink("../outside/canary", root+"/symlink to file"))
	canary, err := unix.Open(fs+"/outside/canary", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(canary)
	must(t, writeFlags(canary, flagImmutable))
	r := open(t, root)
	must(t, r.do(func(fd int) error {
		top := &frame{fd: fd, node: r.node}
		w := &walk{root: r, stack: []*frame{top}}
		steps := map[string]func() error{
			"entering what is a symlink":            func() error { return w.open(top, "symlink") },
			"entering what is a file":               func() error { return w.open(top, "file") },
			"entering what was removed":             func() error { return w.open(top, "missing") },
			"unlinking what is a directory":         func() error { return w.remove(top, "directory", &unix.Statx_t{}) },
			"unlinking what was removed":            func() error { return w.remove(top, "missing", &unix.Statx_t{}) },
			"examining what was removed":            func() error { return w.entry(top, "missing") },
			"opening what is moved away and back":   func() error { return w.crossed(top, "directory") },
			"opening what is moved and removed":     func() error { return w.crossed(top, "missing") },
			"removing a directory, a symlink":       func() error { return w.leave(w.push(t, fd, "symlink")) },
			"removing a directory that was removed": func() error { return w.leave(w.push(t, fd, "missing")) },
			"removing a directory, filled":          func() error { return w.leave(w.push(t, fd, "directory")) },
		}
		done := 0
		for name, step := range steps {
			done++
			if err := step(); err != nil || w.ledger.contested != done || len(w.stack) != 1 {
				t.Errorf("%s: %v, %d contested, %d directories deep", name, err, w.ledger.contested, len(w.stack))
			}
		}
		locked := &unix.Statx_t{Attributes: unix.STATX_ATTR_IMMUTABLE}
		return w.remove(top, "symlink to file", locked)
	}))
	if diff := cmp.Diff([]string{"directory", "file", "symlink"}, names(t, root)); diff != "" {
		t.Errorf("left in the volume (-want +got):\n%s", diff)
	}
	if flags, err := readFlags(canary); err != nil || flags&flagImmutable == 0 {
		t.Errorf("the canary has flags %x: %v", flags, err)
	}
	if _, err := os.Stat(fs + "/outside/canary"); err != nil {
		t.Error(err)
	}
}

// push is as if a directory of that name had been entered.
func (w *walk) push(t *testing.T, fd int, name string) *frame {
	t.Helper()
	child, err := unix.Openat(fd, ".", directoryFlags, 0)
	must(t, err)
	f := &frame{name: name, fd: child}
	w.stack = append(w.stack, f)
	return f
}

// The volume is a folder here, and the symlinks lead to a folder of the same file system, so
// that no mount stops the walk.
func TestDirectoriesSwappedForSymlinks(t *testing.T) {
	const pairs, cleans = 50, 5
	onEach(t, func(t *testing.T, fs string) {
		root := fs + "/volume"
		must(t, os.MkdirAll(fs+"/outside/folder", 0o700))
		must(t, os.Mkdir(root, 0o700))
		for i := range 10 {
			write(t, fmt.Sprintf("%s/outside/canary%d", fs, i), "alive")
		}
		r := open(t, root)
		for range cleans {
			for i := range pairs {
				must(t, os.MkdirAll(fmt.Sprintf("%s/dir%d/folder", root, i), 0o700))
				must(t, os.Symlink("../outside", fmt.Sprintf("%s/link%d", root, i)))
			}
			stop := make(chan struct{})
			var attackers sync.WaitGroup
			attackers.Go(func() { exchange(root, pairs, stop) })
			attackers.Go(func() { juggle(root, stop) })
			err := r.Clean(t.Context(), nil)
			close(stop)
			attackers.Wait()
			if err != nil && !errors.Is(err, ErrStillWritten) {
				t.Errorf("Clean: %v", err)
			}
			must(t, r.Clean(t.Context(), nil))
			checkEmpty(t, r)
		}
		if left := names(t, fs+"/outside"); len(left) != 11 {
			t.Errorf("outside are left %q", left)
		}
	})
}

// exchange swaps directories and symlinks until it is stopped.
func exchange(root string, pairs int, stop chan struct{}) {
	fd, err := unix.Open(root, directoryFlags, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		for i := range pairs {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(fd, fmt.Sprintf("dir%d", i), fd, fmt.Sprintf("link%d", i), unix.RENAME_EXCHANGE)
			}
		}
	}
}

// juggle makes directories and moves them up and down, until it is stopped.
func juggle(root string, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			_ = os.MkdirAll(root+"/a/b/c/d", 0o700)
			_ = os.WriteFile(root+"/a/b/file", nil, 0o600)
			_ = os.Rename(root+"/a/b/c", root+"/c")
			_ = os.Rename(root+"/a", root+"/c/d/a")
		}
	}
}

// A directory is moved while the walk is at its bottom, even out of a volume that is a
// folder of a file system.
func TestDirectoryMovedDuringTheWalk(t *testing.T) {
	for name, to := range map[string]string{"within the volume": "/volume/e/x", "out of the volume": "/outside/x"} {
		t.Run(name, func(t *testing.T) {
			fs := mount(t, "tmpfs")
			must(t, os.MkdirAll(fs+"/volume/e", 0o700))
			must(t, os.Mkdir(fs+"/outside", 0o700))
			write(t, fs+"/outside/canary", "alive")
			deepen(t, fs+"/volume", levels)
			bottom := fs + "/volume" + strings.Repeat("/d", levels)
			r := open(t, fs+"/volume")
			moved := false
			report := &reporter{progress: func(disk.Progress) error {
				if _, err := os.Stat(bottom); err == nil || moved || descriptors(t) < levels/2 {
					return nil
				}
				moved = true // the bottom has just been removed
				return os.Rename(fs+"/volume/d/d/d", fs+to)
			}}
			must(t, r.do(func(fd int) error { return r.passes(t.Context(), fd, report) }))
			if !moved {
				t.Error("nothing was moved")
			}
			checkEmpty(t, r)
			if text, err := os.ReadFile(fs + "/outside/canary"); err != nil || string(text) != "alive" {
				t.Errorf("the canary beside the volume: %q, %v", text, err)
			}
		})
	}
}
