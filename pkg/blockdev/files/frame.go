// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// openFrames is how many directories of a path are open at a time, the root
	// not counted.
	openFrames = 64
	// rounds is how often a directory is read from its beginning before it is removed:
	// once, and again if there was anything, for file systems that skip entries while
	// others are removed.
	rounds = 2
)

// frame is a directory on the way from the root to where the walk is.
type frame struct {
	name string
	// fd is -1 while the directory is too far up to be kept open.
	fd   int
	node node
	// pending are names that have been read and not dealt with.
	pending []string
	// found says that this round met an entry.
	found bool
	round int
	// kept is for lost+found: emptied, not removed.
	kept      bool
	subvolume bool
}

// next returns the next name; false means that the directory has been read to its
// end as often as needed.
func (f *frame) next(buf []byte) (string, bool, error) {
	for len(f.pending) == 0 {
		names, err := readNames(f.fd, buf)
		if err != nil {
			return "", false, err
		}
		f.pending = names
		if len(names) > 0 {
			f.found = true
			continue
		}
		if f.round++; !f.found || f.round >= rounds {
			return "", false, nil
		}
		f.found = false
		if _, err := unix.Seek(f.fd, 0, unix.SEEK_SET); err != nil {
			return "", false, err
		}
	}
	name := f.pending[0]
	f.pending = f.pending[1:]
	return name, true, nil
}

// drop closes a frame that is too far up; what it had read is read again.
func (f *frame) drop() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
	}
	f.fd, f.pending, f.found, f.round = -1, nil, false, 0
}

// reopen opens the directory again, as the parent of a child of its. False means
// that the child has been moved elsewhere.
func (f *frame) reopen(child int) (bool, error) {
	fd, err := uninterrupted(func() (int, error) {
		return unix.Openat(child, "..", directoryFlags, 0)
	})
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("go up: %w", err)
	}
	st, err := statDescriptor(fd)
	if err != nil || nodeOf(&st) != f.node {
		_ = unix.Close(fd)
		return false, err
	}
	f.fd = fd
	return true, nil
}

// pathBytes is how much of a path is told; of deeper ones the end is.
const pathBytes = 1024

// relative joins the names of frames below the first, and name unless it is empty.
func relative(frames []*frame, name string) string {
	var names []string
	bytes := 0
	if name != "" {
		names, bytes = append(names, name), len(name)
	}
	for i := len(frames) - 1; i > 0; i-- {
		if bytes += len(frames[i].name) + 1; bytes > pathBytes {
			names = append(names, "...")
			break
		}
		names = append(names, frames[i].name)
	}
	var path strings.Builder
	for i, name := range slices.Backward(names) {
		path.WriteString(name)
		if i > 0 {
			path.WriteByte('/')
		}
	}
	return path.String()
}
