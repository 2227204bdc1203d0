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
