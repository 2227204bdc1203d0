// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// levels is how deep below the root of its tree a directory is entered. Deeper ones
	// are moved up first: an open directory keeps the dentries of all directories above
	// it in the kernel's memory.
	levels = 64
	// levelsRefused is how deep a directory is entered that cannot be moved.
	levelsRefused = 512
	// scratchPrefix begins the names of directories that the walk makes.
	scratchPrefix = ".stowage-"
)

// scratch is a directory that the walk creates in the root of a tree, for directories that are
// too deep. The walk enters it after the rest of that root, and creates another one for what
// is too deep in it. So there are at most two at a time, the root of the volume does not grow,
// and the next clean finds what an interrupted one leaves.
type scratch struct {
	name  string
	fd    int
	moved int
}

func (s *scratch) close() {
	if s != nil {
		_ = unix.Close(s.fd)
	}
}

// tooDeep reports whether a directory must be moved up before it is entered. Renames do not
// leave a subvolume, so depth counts from its root. The subvolume itself can be moved.
func (w *walk) tooDeep(dir *frame, child node) bool {
	depth := len(w.stack)
	if !isSubvolume(dir.node, child) {
		depth -= dir.top
	}
	return depth > levels
}

// moveUp moves a directory to the root of its tree. False means that it cannot be moved, and
// is entered where it is. If it is too deep for that, it is left to the next walk, which finds
// more free space.
func (w *walk) moveUp(dir *frame, name string, st *unix.Statx_t) (bool, error) {
	top := dir.top
	if isSubvolume(dir.node, nodeOf(st)) {
		top = 0
	}
	err := w.tryMove(top, dir, name)
	if errors.Is(err, unix.EPERM) {
		if err := w.unlock(dir, name); err != nil {
			return false, err
		}
		err = w.tryMove(top, dir, name)
	}
	switch {
	case err == nil:
		w.ledger.moved(st, time.Now())
		return true, nil
	case errors.Is(err, unix.ENOENT):
		w.ledger.contest()
		return true, nil
	case errors.Is(err, unix.EBUSY):
		return false, w.nested(name)
	case len(w.stack) > levelsRefused:
		w.refused = w.failed("move up", name, err)
		dir.left = true
		return true, nil
	default:
		return false, nil
	}
}

// tryMove moves a directory to the scratch directory, or else to the uppermost directory of
// its tree that accepts it: on a full disk, one with space in its existing blocks.
func (w *walk) tryMove(top int, dir *frame, name string) error {
	err := w.moveToScratch(w.stack[top], dir, name)
	for _, above := range w.stack[top:min(top+levels, len(w.stack)-1)] {
		if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EBUSY) {
			break
		}
		if err = rename(dir.fd, name, above.fd, scratchName()); err == nil {
			above.again()
		}
	}
	return err
}

func (w *walk) moveToScratch(top, dir *frame, name string) error {
	if top.scratch == nil {
		made, err := makeScratch(top.fd)
		if err != nil {
			return err
		}
		w.ledger.made()
		top.scratch = made
	}
	err := error(unix.EEXIST)
	for i := 0; i < retries && errors.Is(err, unix.EEXIST); i++ {
		top.scratch.moved++
		err = rename(dir.fd, name, top.scratch.fd, strconv.Itoa(top.scratch.moved))
	}
	return err
}

// makeScratch makes a scratch directory that takes directories of any project.
func makeScratch(top int) (*scratch, error) {
	name := scratchName()
	if err := unix.Mkdirat(top, name, 0o700); err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	fd, err := openBeneath(top, name, directoryFlags)
	if err != nil {
		return nil, fmt.Errorf("open scratch directory: %w", err)
	}
	s := &scratch{name: name, fd: fd}
	flags, err := readFlags(fd)
	if err == nil && flags&flagProjectInherit != 0 {
		err = writeFlags(fd, flags&^flagProjectInherit)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("clear project inheritance of scratch directory: %w", err)
	}
	return s, nil
}

// scratchName returns a random name.
func scratchName() string { return scratchPrefix + strings.ToLower(rand.Text()) }

// rename moves an entry to another directory, in which the name must be free.
func rename(from int, name string, to int, as string) error {
	if err := checkName(name); err != nil {
		return err
	}
	_, err := uninterrupted(func() (int, error) {
		return 0, unix.Renameat2(from, name, to, as, unix.RENAME_NOREPLACE)
	})
	return err
}
