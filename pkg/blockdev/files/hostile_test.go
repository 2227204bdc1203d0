// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/local/disk"
)

func TestNestedMountsStopTheClean(t *testing.T) {
	stories := map[string]func(t *testing.T, root, outside string) (at string){
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
	for name, nest := range stories {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, root string) {
				at := nest(t, root, outside(t))
				write(t, root+"/file beside", "alive")
				r := open(t, root)
				var nested *NestedMountError
				if err := r.Clean(t.Context(), nil); !errors.As(err, &nested) || nested.Path != at {
					t.Errorf("Clean says %v, want that %s is a mount", err, at)
				}
				if _, err := os.Stat(root + "/file beside"); err != nil {
					t.Errorf("something was deleted before the mount was found: %v", err)
				}
				// As if it had been mounted after the look at the mount table.
				err := r.do(func(fd int) error { return r.passes(t.Context(), fd, &teller{every: time.Hour}) })
				if !errors.As(err, &nested) || nested.Path != at {
					t.Errorf("the walk says %v, want that %s is a mount", err, at)
				}
				if content, _, err := r.Empty(t.Context()); err != nil || content != disk.ContentSome {
					t.Errorf("Empty says %s, %v", content, err)
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

func TestMountsOfTheHostStopTheCleanBeforeAnything(t *testing.T) {
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
			t.Errorf("%s says %v", name, err)
		}
	}
	if _, err := os.Stat(root + "/file"); err != nil {
		t.Error(err)
	}
}

// writer acts between any two entries that the walk deals with: nobody is faster.
type writer struct {
	root string
	call int
	// source is a file, deepest the directory that it has made below all others.
	source, deepest int
}

// next names a file in a directory.
func (w *writer) next(dir string) string {
	return fmt.Sprintf("%s/%s/%d", w.root, dir, w.call)
}

// deepen makes a directory in the one that it made before.
func (w *writer) deepen() error {
	if err := unix.Mkdirat(w.deepest, "d", 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(w.deepest, "d", directoryFlags, 0)
	if err != nil {
		return err
	}
	unix.Close(w.deepest)
	w.deepest = fd
	return nil
}

// link makes two more names for a file of which one name at most was deleted since.
func (w *writer) link() error {
	return errors.Join(
		unix.Linkat(w.source, "", unix.AT_FDCWD, w.next("b"), unix.AT_EMPTY_PATH),
		unix.Linkat(w.source, "", unix.AT_FDCWD, w.next("b")+"more", unix.AT_EMPTY_PATH),
	)
}

func TestWritersEndTheClean(t *testing.T) {
	stories := map[string]func(w *writer) error{
		"a new file at each step": func(w *writer) error {
			return os.WriteFile(w.next(""), nil, 0o600)
		},
		"the same file again": func(w *writer) error {
			return os.WriteFile(w.root+"/log", nil, 0o600)
		},
		"a directory that is never empty": func(w *writer) error {
			return errors.Join(os.MkdirAll(w.root+"/d", 0o700), os.WriteFile(w.next("d"), nil, 0o600))
		},
		"links to one file":   (*writer).link,
		"deeper at each step": (*writer).deepen,
	}
	for name, act := range stories {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, root string) {
				must(t, os.MkdirAll(root+"/b", 0o700))
				write(t, root+"/b/source", "x")
				deepest, err := unix.Open(root+"/b", directoryFlags, 0)
				must(t, err)
				source, err := unix.Open(root+"/b/source", handleFlags, 0)
				must(t, err)
				w := &writer{root: root, source: source, deepest: deepest}
				defer func() { unix.Close(w.deepest); unix.Close(w.source) }()
				r := open(t, root)
				tell := &teller{progress: func(disk.Progress) error { w.call++; return act(w) }}
				err = r.do(func(fd int) error { return r.passes(t.Context(), fd, tell) })
				var still *StillWrittenError
				if !errors.As(err, &still) {
					t.Errorf("%v after %d steps", err, w.call)
				}
				if most := 3 * maxPasses * (foreignLimit + contestedLimit); w.call > most {
					t.Errorf("%d steps, more than %d", w.call, most)
				}
			})
		})
	}
}

func TestDirectoriesSwappedForSymlinksLeadNowhere(t *testing.T) {
	onEach(t, func(t *testing.T, root string) {
		out := outside(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		stop, began := make(chan struct{}), make(chan struct{})
		var attackers sync.WaitGroup
		for i := range 3 {
			attackers.Go(func() { swap(root, out, i, began, stop) })
		}
		r := open(t, root)
		for range 3 {
			<-began
		}
		for range 10 {
			err := r.Clean(ctx, nil)
			var still *StillWrittenError
			if err != nil && !errors.As(err, &still) {
				t.Errorf("Clean: %v", err)
			}
		}
		close(stop)
		attackers.Wait()
		must(t, r.Clean(ctx, nil))
		checkEmpty(t, r)
	})
}

// swap exchanges directories, filled and deep, for symlinks to the outside, and moves
// them up and down, until it is stopped.
func swap(root, out string, n int, began, stop chan struct{}) {
	dir, link := fmt.Sprintf("%s/dir%d", root, n), fmt.Sprintf("%s/link%d", root, n)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		_ = os.MkdirAll(dir+"/folder/folder/folder", 0o700)
		_ = os.WriteFile(dir+"/folder/file", nil, 0o600)
		_ = os.WriteFile(dir+"/folder/folder/file", nil, 0o600)
		_ = os.Symlink(out, link)
		_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
		_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
		_ = os.Symlink(out+"/folder", dir+"/folder/link")
		_ = unix.Renameat2(unix.AT_FDCWD, dir+"/folder/folder", unix.AT_FDCWD, dir+"/folder/link", unix.RENAME_EXCHANGE)
		_ = os.Rename(dir+"/folder/link", root+fmt.Sprintf("/up%d", n))
		if i == 0 {
			began <- struct{}{}
		}
	}
}

// A directory deeper than is held open is moved while the walk is at its bottom:
// going up leads elsewhere, even out of a volume that is a folder of a file system.
func TestTheWayUpFromADirectoryThatWasMovedIsNotTaken(t *testing.T) {
	for name, to := range map[string]string{"within the volume": "/volume/e/x", "out of the volume": "/outside/x"} {
		t.Run(name, func(t *testing.T) {
			fs := mount(t, "tmpfs")
			must(t, os.MkdirAll(fs+"/volume/e", 0o700))
			must(t, os.Mkdir(fs+"/outside", 0o700))
			write(t, fs+"/outside/canary", "alive")
			deepen(t, fs+"/volume", 3*openFrames)
			bottom := fs + "/volume" + strings.Repeat("/d", 3*openFrames)
			r := open(t, fs+"/volume")
			moved := false
			tell := &teller{progress: func(disk.Progress) error {
				if _, err := os.Stat(bottom); err == nil || moved || descriptors(t) < openFrames {
					return nil
				}
				moved = true // the bottom has just been removed
				return os.Rename(fs+"/volume/d/d/d", fs+to)
			}}
			must(t, r.do(func(fd int) error { return r.passes(t.Context(), fd, tell) }))
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
