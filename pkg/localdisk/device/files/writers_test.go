// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// writer acts between any two entries of the walk, as fast as another process could.
type writer struct {
	root string
	call int
	// source is a file, deepest the lowest directory that it has made.
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
	_ = unix.Close(w.deepest)
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

func TestConcurrentWriters(t *testing.T) {
	tests := map[string]func(w *writer) error{
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
	for name, act := range tests {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, root string) {
				must(t, os.MkdirAll(root+"/b", 0o700))
				write(t, root+"/b/source", "x")
				deepest, err := unix.Open(root+"/b", directoryFlags, 0)
				must(t, err)
				source, err := unix.Open(root+"/b/source", handleFlags, 0)
				must(t, err)
				w := &writer{root: root, source: source, deepest: deepest}
				defer func() { _, _ = unix.Close(w.deepest), unix.Close(w.source) }()
				r := open(t, root)
				report := &reporter{progress: func(disk.Progress) error { w.call++; return act(w) }}
				err = r.do(func(fd int) error { return r.passes(t.Context(), fd, report) })
				if !errors.Is(err, ErrStillWritten) {
					t.Errorf("%v after %d steps", err, w.call)
				}
				if most := 3 * maxPasses * (foreignLimit + contestedLimit); w.call > most {
					t.Errorf("%d steps, more than %d", w.call, most)
				}
			})
		})
	}
}
