// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// rounds is how often a directory is read from its beginning before it is removed: once, and
// again if there was anything, for file systems that skip entries while others are removed.
const rounds = 2

// frame is an open directory on the way from the root to where the walk is.
type frame struct {
	name string
	fd   int
	node node
	// top is the position in the stack of the root of the directory's tree: of the
	// volume, or of a subvolume in it.
	top int
	// scratch, in the root of a tree, is nil until a directory had to be moved there.
	scratch *scratch
	// pending are names that were read and not processed yet.
	pending []string
	// found reports whether this round found an entry.
	found bool
	round int
	// kept is for lost+found: emptied, not removed.
	kept      bool
	subvolume bool
	// left reports whether a directory below was not entered: this one stays for the next walk.
	left bool
}

// next returns the next name; false means that the directory has been read to its
// end as often as needed. The scratch directory is the last.
func (f *frame) next(buf []byte) (string, bool, error) {
	for {
		for len(f.pending) > 0 {
			name := f.pending[0]
			f.pending = f.pending[1:]
			if f.scratch == nil || name != f.scratch.name {
				return name, true, nil
			}
		}
		names, err := readNames(f.fd, buf)
		if err != nil {
			return "", false, err
		}
		f.pending = names
		switch {
		case len(names) > 0:
			f.found = true
			continue
		case f.scratch != nil:
			name := f.scratch.name
			f.scratch.close()
			f.scratch = nil
			return name, true, nil
		}
		if f.round++; !f.found || f.left || f.round >= rounds {
			return "", false, nil
		}
		f.found = false
		if _, err := unix.Seek(f.fd, 0, unix.SEEK_SET); err != nil {
			return "", false, err
		}
	}
}

// again has the directory read once more.
func (f *frame) again() { f.found, f.round = true, 0 }

func (f *frame) close() {
	f.scratch.close()
	_ = unix.Close(f.fd)
}

// pathBytes limits a path in a message; of a longer one the end is kept.
const pathBytes = 1024

// relative joins the names of frames below the first, and name unless it is empty.
func relative(frames []*frame, name string) string {
	for _, f := range slices.Backward(frames[1:]) {
		if len(f.name)+1+len(name) > pathBytes {
			return ".../" + name
		}
		name = path.Join(f.name, name)
	}
	return name
}
