// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	directoryFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	handleFlags    = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

	// namesBytes is how much of a directory is read at a time.
	namesBytes = 64 << 10
)

// node is an inode as seen through a mount.
type node struct {
	major, minor uint32
	inode, mount uint64
}

func nodeOf(st *unix.Statx_t) node {
	return node{major: st.Dev_major, minor: st.Dev_minor, inode: st.Ino, mount: st.Mnt_id}
}

func isDirectory(st *unix.Statx_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// openBeneath opens an entry of a directory. EXDEV means that something is mounted
// on it, or that it was moved away meanwhile.
func openBeneath(dir int, name string, flags uint64) (int, error) {
	if err := checkName(name); err != nil {
		return -1, err
	}
	how := unix.OpenHow{Flags: flags, Resolve: beneath}
	return uninterrupted(func() (int, error) { return unix.Openat2(dir, name, &how) })
}

// checkName rejects names that no entry can have, which a corrupt file system may return.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("entry named %q: %w", name, unix.EUCLEAN)
	}
	return nil
}

// statEntry stats an entry without following symlinks, mounting anything, or asking a server.
func statEntry(dir int, name string) (unix.Statx_t, error) {
	return stat(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC)
}

func statDescriptor(fd int) (unix.Statx_t, error) { return stat(fd, "", unix.AT_EMPTY_PATH) }

func stat(dir int, name string, flags int) (unix.Statx_t, error) {
	var st unix.Statx_t
	_, err := uninterrupted(func() (int, error) {
		return 0, unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
	})
	return st, err
}

// isOn reports whether a file system is of the type with this number.
func isOn(fd int, magic int64) (bool, error) {
	var fs unix.Statfs_t
	_, err := uninterrupted(func() (int, error) { return 0, unix.Fstatfs(fd, &fs) })
	return int64(fs.Type) == magic, err //nolint:unconvert // not everywhere an int64
}

// readNames reads the next names of a directory into buf; none at the end.
func readNames(dir int, buf []byte) ([]string, error) {
	for {
		n, err := uninterrupted(func() (int, error) { return unix.Getdents(dir, buf) })
		if errors.Is(err, unix.ENOENT) {
			return nil, nil // the directory itself has been removed
		}
		if err != nil || n == 0 {
			return nil, err
		}
		if _, _, names := unix.ParseDirent(buf[:n], -1, nil); len(names) > 0 {
			return names, nil
		}
	}
}

// unlink removes a name; flags as of unlinkat.
func unlink(dir int, name string, flags int) error {
	if err := checkName(name); err != nil {
		return err
	}
	_, err := uninterrupted(func() (int, error) { return 0, unix.Unlinkat(dir, name, flags) })
	return err
}

// retries is how often a call is repeated that a signal, or a rename elsewhere, interrupted.
const retries = 100

func uninterrupted(call func() (int, error)) (int, error) {
	n, err := call()
	for i := 0; i < retries && (errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)); i++ {
		n, err = call()
	}
	return n, err
}
