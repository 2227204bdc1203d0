// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
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
	if err := unix.Close(fd); err != nil {
		return nil, fmt.Errorf("close volume root %s: %w", r.path, err)
	}
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
		return &ReplacedError{Path: r.path}
	}
	return step(fd)
}

// openVerified opens and verifies the root.
func (r *Root) openVerified() (int, node, error) {
	fd, err := uninterrupted(func() (int, error) {
		return unix.Open(r.path, directoryFlags, 0)
	})
	if err != nil {
		return -1, node{}, fmt.Errorf("open volume root %s: %w", r.path, err)
	}
	st, err := statDescriptor(fd)
	if err != nil {
		_ = unix.Close(fd)
		return -1, node{}, fmt.Errorf("stat volume root %s: %w", r.path, err)
	}
	if r.verify != nil {
		if err := r.verify(fd); err != nil {
			_ = unix.Close(fd)
			return -1, node{}, fmt.Errorf("verify volume root %s: %w", r.path, err)
		}
	}
	return fd, nodeOf(&st), nil
}

// checkMounts searches for mounts below the root in the process's own mount table, and calls
// BeforeClean for others.
func (r *Root) checkMounts(root int) error {
	if err := r.checkOwnMounts(root); err != nil {
		return err
	}
	if r.BeforeClean == nil {
		return nil
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
