// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// Writers here act between any two entries that the walk deals with: nobody is faster.
func TestWritersEndTheClean(t *testing.T) {
	deepest := ""
	stories := map[string]func(root string, call int) error{
		"a new file at each step": func(root string, call int) error {
			return os.WriteFile(fmt.Sprintf("%s/%d", root, call), nil, 0o600)
		},
		"the same file again": func(root string, _ int) error {
			return os.WriteFile(root+"/log", nil, 0o600)
		},
		"a directory that is never empty": func(root string, call int) error {
			_ = os.Mkdir(root+"/d", 0o700)
			return os.WriteFile(fmt.Sprintf("%s/d/%d", root, call), nil, 0o600)
		},
		"links to one file": func(root string, call int) error {
			return unix.Linkat(unix.AT_FDCWD, root+"/a/source", unix.AT_FDCWD, fmt.Sprintf("%s/b/%d", root, call), 0)
		},
		"deeper at each step": func(root string, call int) error {
			if call == 1 {
				deepest = root
			}
			if deepest += "/d"; len(deepest) > 4000 {
				return nil
			}
			return os.MkdirAll(deepest, 0o700)
		},
	}
	for name, act := range stories {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, root string) {
				must(t, os.Mkdir(root+"/a", 0o700))
				must(t, os.Mkdir(root+"/b", 0o700))
				write(t, root+"/a/source", "x")
				r := open(t, root)
				calls := 0
				tell := &teller{progress: func(disk.Progress) error {
					calls++
					if err := act(root, calls); err != nil && !errors.Is(err, unix.ENOENT) {
						return err
					}
					return nil
				}}
				err := r.do(func(fd int) error { return r.passes(t.Context(), fd, tell) })
				var still *StillWrittenError
				if done := name == "links to one file" || name == "deeper at each step"; !errors.As(err, &still) && !(done && err == nil) {
					t.Errorf("%v after %d steps", err, calls)
				}
				if most := 3 * maxPasses * (foreignLimit + contestedLimit); calls > most {
					t.Errorf("%d steps, more than %d", calls, most)
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
		for range 20 {
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

// A directory deeper than is held open is moved while the walk is in it: going up
// would lead elsewhere.
func TestADeepDirectoryMovedAwayIsFoundByTheNextWalk(t *testing.T) {
	root := mount(t, "tmpfs")
	deepen(t, root, 3*openFrames)
	must(t, os.Mkdir(root+"/e", 0o700))
	r := open(t, root)
	moved := false
	tell := &teller{progress: func(disk.Progress) error {
		// Once the walk is in the deepest directory, the chain's first is moved.
		deep := root
		for range 3 * openFrames {
			deep += "/d"
		}
		if _, err := os.Stat(deep); err == nil && !moved && descriptors(t) > openFrames {
			moved = true
			return errors.Join(os.Rename(root+"/d/d/d", root+"/x"), os.Rename(root+"/d", root+"/y"))
		}
		return nil
	}}
	must(t, r.do(func(fd int) error { return r.passes(t.Context(), fd, tell) }))
	if !moved {
		t.Error("nothing was moved")
	}
	checkEmpty(t, r)
}
