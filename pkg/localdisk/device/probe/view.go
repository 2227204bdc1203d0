// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
)

// view is what was mounted when a scan began. It is immutable.
type view struct {
	self, host *mounts.Table
	// fstab has the mount points of the host's fstab.
	fstab []string
}

func (p *Prober) view() (*view, error) {
	self, err := mounts.Read(mounts.Self)
	if err != nil {
		return nil, err
	}
	host := self
	if p.cfg.HostMountinfo != mounts.Self {
		if host, err = mounts.Read(p.cfg.HostMountinfo); err != nil {
			return nil, err
		}
	}
	fstab, err := mounts.Fstab(p.cfg.Fstab) // none if that is empty
	return &view{self: self, host: host, fstab: fstab}, err
}

// onHost reports whether the host has this mount too, by what is mounted.
func (v *view) onHost(m *mounts.Mount) bool {
	return v.host == v.self || len(v.host.SameBytes(m)) > 0
}

// barrierError means that a path crosses a file system that must not be accessed.
type barrierError struct{ path, fsType string }

func (e *barrierError) Error() string {
	return fmt.Sprintf("%s is on a file system of type %s, which may not answer", e.path, e.fsType)
}

// passable reports whether file systems of a type may be crossed. Volumes can be on fewer:
// these are the root file systems of nodes and containers.
func passable(fsType string) bool {
	switch fsType {
	case "overlay", "devtmpfs", "squashfs", "erofs", "rootfs":
		return true
	}
	return mounts.Supported(fsType)
}

// maxLinks is how many symlinks may be on a path, as in the kernel.
const maxLinks = 40

// walk resolves a path, absolute or from a folder without symlinks, one element at a time, so
// that the mount table is checked before each element is accessed.
func (v *view) walk(from, to string) (string, *unix.Statx_t, error) {
	at, links := start(from, to), 0
	pending := strings.Split(to, "/")
	st, err := v.stat(at)
	for err == nil && len(pending) > 0 {
		name := pending[0]
		pending = pending[1:]
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return at, nil, fmt.Errorf("%s: %w", at, unix.ENOTDIR)
		}
		next := path.Join(at, name) // "", "." and ".." too: at has no symlinks
		if st, err = v.stat(next); err != nil {
			break
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return next, nil, err
		}
		if links++; links > maxLinks {
			return next, nil, fmt.Errorf("%s: %w", next, unix.ELOOP)
		}
		at = start(at, target)
		pending = append(strings.Split(target, "/"), pending...)
		if st, err = v.stat(at); err != nil {
			return at, nil, err
		}
	}
	return at, st, err
}

func start(from, to string) string {
	if path.IsAbs(to) {
		return "/"
	}
	return from
}

// stat is lstat, and does not access file systems that may hang.
func (v *view) stat(p string) (*unix.Statx_t, error) {
	if m, ok := v.self.Over(p); ok && !passable(m.FSType) {
		return nil, &barrierError{path: p, fsType: m.FSType}
	}
	return statx(p, kindAndMount)
}

// kindAndMount is what is requested of most paths. The mount's ID is that of mountinfo.
const kindAndMount = unix.STATX_TYPE | unix.STATX_MNT_ID

func statx(p string, mask int) (*unix.Statx_t, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	var st unix.Statx_t
	if err := uninterrupted(func() error { return unix.Statx(unix.AT_FDCWD, p, flags, mask, &st) }); err != nil {
		return nil, &fs.PathError{Op: "statx", Path: p, Err: err}
	}
	return &st, nil
}

// uninterrupted repeats a call while signals interrupt it.
func uninterrupted(call func() error) error {
	err := call()
	for errors.Is(err, unix.EINTR) {
		err = call()
	}
	return err
}

// gone reports whether an error means that nothing is there.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
