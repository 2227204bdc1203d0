// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files empties the file system of a volume, and restores the state that its root had
// when it was first published.
//
// A Root holds no descriptor. Every method opens the volume's root, verifies it, works, and
// closes what it opened before it returns: a descriptor left open would prevent the host from
// unmounting.
//
// # Never beyond the volume
//
// Every directory is opened by openat2 relative to its parent's descriptor, one name at a time,
// following no symlink and crossing no mount, and everything is removed by name relative to such
// a descriptor. Directories that are exchanged for symlinks, moved or mounted over meanwhile are
// rejected by the kernel, not by an earlier check. A mount below the root, of another file system
// or of the same, stops the clean with a NestedMountError: before anything is deleted if the
// mount table shows it then, else on reaching it. FIFOs, sockets and devices are unlinked, never
// opened. A process that can move a directory out of the volume while it is being emptied (the
// volume's users cannot; their mounts end at its root) causes it to be emptied at its new place.
//
// # Bounded
//
// Names are read in batches of namesBytes, and a directory is entered at most levels below the
// root of its tree, which is the volume or a subvolume in it. A deeper one is moved up before
// it is entered, to a scratch directory in that root: neither the walk nor the kernel, which
// keeps the dentries above an open directory, needs memory proportional to the depth of a
// tree. A directory that cannot be moved is entered up to levelsRefused; what is below that is
// left, and is the error of the clean.
//
// A clean is at most maxPasses walks. A walk also ends if it finds foreignLimit more entries than
// the volume had when it began (see ledger), or contestedLimit entries gone, exchanged or filled
// again. The error is ErrStillWritten.
package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Root is the root directory of a volume. It holds nothing open. Its methods may not
// be called concurrently with one another.
type Root struct {
	path   string
	verify func(dirFD int) error
	node   node

	// BeforeClean, if set, is called after verify and before anything is deleted or any command
	// is run, to check what the provisioner's own mount table does not show: the host's mounts
	// below the volume. Its error ends the clean.
	BeforeClean func() error
}

// Open examines the directory at path, an absolute path whose last element is not a symlink.
// verify is called here, and again whenever a method opens the root, with a readable
// descriptor of it that belongs to the caller; its error ends the method. nil verifies only
// that the directory and its mount are those found by Open.
func Open(path string, verify func(dirFD int) error) (*Root, error) {
	clean := filepath.Clean(path) // a trailing slash would have a symlink followed
	if !filepath.IsAbs(clean) || clean == "/" {
		return nil, fmt.Errorf("open volume root %q: not an absolute path below /", path)
	}
	r := &Root{path: clean, verify: verify}
	fd, at, err := r.openVerified()
	if err != nil {
		return nil, err
	}
	r.node = at
	_ = unix.Close(fd)
	return r, nil
}

// do calls step with a descriptor of the root, which it closes afterwards.
func (r *Root) do(step func(fd int) error) error {
	fd, at, err := r.openVerified()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if at != r.node {
		return fmt.Errorf("%s %w", r.path, ErrReplaced)
	}
	return step(fd)
}

// openVerified opens and verifies the root.
func (r *Root) openVerified() (int, node, error) {
	fd, err := uninterrupted(func() (int, error) { return unix.Open(r.path, directoryFlags, 0) })
	if err != nil {
		return -1, node{}, fmt.Errorf("open volume root %s: %w", r.path, err)
	}
	st, err := statDescriptor(fd)
	if err == nil && r.verify != nil {
		err = r.verify(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, node{}, fmt.Errorf("verify volume root %s: %w", r.path, err)
	}
	return fd, nodeOf(&st), nil
}

// checkMounts searches for mounts below the root in the process's own mount table, and calls
// BeforeClean for others.
func (r *Root) checkMounts(root int) error {
	if err := r.checkOwnMounts(root); err != nil || r.BeforeClean == nil {
		return err
	}
	return r.BeforeClean()
}

func (r *Root) checkOwnMounts(root int) error {
	// The path with symlinks resolved, as the mount table has it.
	resolved, err := os.Readlink(descriptorPath(root))
	if err != nil {
		return fmt.Errorf("resolve %s: %w", r.path, err)
	}
	below, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		// A mount that another one hides has another parent.
		return uint64(m.Parent) != r.node.mount || !strings.HasPrefix(m.Mountpoint, resolved+"/"), false
	})
	if err != nil {
		return fmt.Errorf("read mount table: %w", err)
	}
	if len(below) > 0 {
		return &NestedMountError{Path: below[0].Mountpoint}
	}
	return nil
}

// descriptorPath leads to what a descriptor is open on, and to nothing else.
func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// Empty returns whether the volume holds anything but an empty lost+found, and the name of
// something it holds, relative to the root. After an error the content is unknown.
func (r *Root) Empty(ctx context.Context) (disk.Content, string, error) {
	content, what := disk.ContentUnknown, ""
	err := r.do(func(root int) error {
		err := context.Cause(ctx)
		if err == nil {
			what, err = firstEntry(root)
		}
		switch {
		case err != nil:
			return fmt.Errorf("list %s: %w", r.path, err)
		case what != "":
			content = disk.ContentSome
		default:
			content = disk.ContentNone
		}
		return nil
	})
	return content, what, err
}

// firstEntry returns the name of something in the root; empty if there is at most an empty
// lost+found.
func firstEntry(root int) (string, error) {
	name, lost, err := first(root, lostAndFound)
	if err != nil || name != "" || !lost {
		return name, err
	}
	fd, err := openBeneath(root, lostAndFound, directoryFlags)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT):
		return "", nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return lostAndFound, nil
	default:
		return "", err
	}
	defer unix.Close(fd)
	if name, _, err = first(fd, ""); err != nil || name == "" {
		return "", err
	}
	return lostAndFound + "/" + name, nil
}

// first returns the first name of a directory other than but, and whether but was among those
// before it.
func first(dir int, but string) (name string, met bool, err error) {
	if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
		return "", false, err
	}
	buf := make([]byte, 4096)
	for {
		names, err := readNames(dir, buf)
		if err != nil || len(names) == 0 {
			return "", met, err
		}
		for _, n := range names {
			if n != but {
				return n, met, nil
			}
			met = true
		}
	}
}

// NestedMountError means that something is mounted at Path, below the volume's root. It was not
// changed.
type NestedMountError struct{ Path string }

func (e *NestedMountError) Error() string {
	return fmt.Sprintf("something is mounted at %s, inside the volume: unmount it", e.Path)
}

var (
	// ErrStillWritten means that files appear in the volume as fast as they are deleted.
	ErrStillWritten = errors.New("is written to while it is being cleaned")
	// ErrReplaced means that another directory or mount is at the volume's path than when the
	// Root was opened.
	ErrReplaced = errors.New("was replaced meanwhile")
)
