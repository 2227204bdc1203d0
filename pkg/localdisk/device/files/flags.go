// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/ioctl"
)

// Inode flags, of linux/fs.h.
const (
	flagImmutable      = 0x10
	flagAppend         = 0x20
	flagProjectInherit = 0x20000000

	flagsLocked = flagImmutable | flagAppend
	// flagsKept are those that privileged users set on a directory, and that a clean preserves:
	// SECRM, UNRM, COMPR, SYNC, IMMUTABLE, APPEND, NODUMP, NOATIME, NOCOMP, JOURNAL_DATA,
	// NOTAIL, DIRSYNC, TOPDIR, NOCOW, DAX, PROJINHERIT, CASEFOLD.
	flagsKept = 0x6283c4ff

	attributesLocked = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
)

const (
	ioctlGetExtended = ioctl.Read | 28<<16 | 'X'<<8 | 31
	ioctlSetExtended = ioctl.Write | 28<<16 | 'X'<<8 | 32
)

// extended is struct fsxattr of linux/fs.h.
type extended struct {
	flags uint32
	// extentSize and cowExtentSize are hints, in bytes.
	extentSize uint32
	_          uint32 // the number of extents
	// project is what project quotas count the inode to.
	project       uint32
	cowExtentSize uint32
	_             [8]byte
}

// Flags of struct fsxattr: those that only the file system sets (PREALLOC, VERITY, HASATTR), and
// those that are inode flags too (DAX, PROJINHERIT, NODUMP, NOATIME, SYNC, APPEND, IMMUTABLE).
const (
	extendedReadOnly = 0x80020002
	extendedInode    = 0x82f8
	// extendedKept are those that only struct fsxattr has, such as NOSYMLINKS,
	// EXTSZINHERIT and RTINHERIT of xfs, and that outlast the clean.
	extendedKept = ^uint32(extendedReadOnly | extendedInode)
)

// unsupported reports whether a file system does not support a request.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL)
}

// readFlags returns an inode's flags; none if the file system has none.
func readFlags(fd int) (uint32, error) {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if unsupported(err) {
		return 0, nil
	}
	return flags, doing("read flags", err)
}

func writeFlags(fd int, flags uint32) error {
	return doing("set flags", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(int32(flags))))
}

// doing adds what was done to an error, if there is one.
func doing(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// unlock clears the flags that keep an inode from being changed.
func unlock(fd int) error {
	flags, err := readFlags(fd)
	if err != nil || flags&flagsLocked == 0 {
		return err
	}
	return writeFlags(fd, flags&^flagsLocked)
}

// unlockEntry does so for an entry that is a regular file or a directory. Others are skipped:
// opening them has side effects.
func unlockEntry(dir int, name string) error {
	handle, err := openBeneath(dir, name, handleFlags)
	if err != nil {
		return err
	}
	defer unix.Close(handle)
	st, err := statDescriptor(handle)
	if err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return nil
	}
	// The handle is of this very inode, so its type is what it was.
	fd, err := uninterrupted(func() (int, error) {
		return unix.Open(descriptorPath(handle), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unlock(fd)
}

// readExtended returns an inode's struct fsxattr; the zero value if the file system has none.
func readExtended(fd int) (extended, error) {
	var x extended
	err := ioctl.Call(fd, ioctlGetExtended, unsafe.Pointer(&x))
	if unsupported(err) {
		return extended{}, nil
	}
	return x, doing("read extended flags", err)
}

func writeExtended(fd int, x extended) error {
	return doing("set extended flags", ioctl.Call(fd, ioctlSetExtended, unsafe.Pointer(&x)))
}

// Numbers of linux/btrfs.h.
const (
	subvolumeInode    = 256
	subvolumeReadOnly = 1 << 1

	ioctlDestroySubvolume  = ioctl.Write | 4096<<16 | 0x94<<8 | 15
	ioctlGetSubvolumeFlags = ioctl.Read | 8<<16 | 0x94<<8 | 25
	ioctlSetSubvolumeFlags = ioctl.Write | 8<<16 | 0x94<<8 | 26
)

// subvolumeArguments is struct btrfs_ioctl_vol_args.
type subvolumeArguments struct {
	_    int64
	name [4088]byte
}

// isSubvolume reports whether a btrfs directory is the root of a subvolume, other than the
// volume's root.
func isSubvolume(parent, child node) bool {
	return child.inode == subvolumeInode && (child.major != parent.major || child.minor != parent.minor)
}

// destroySubvolume removes a subvolume or snapshot with all its files at once. It fails with
// ENOTEMPTY if it has nested subvolumes.
func destroySubvolume(parent int, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	var arguments subvolumeArguments
	if copy(arguments.name[:len(arguments.name)-1], name) < len(name) {
		return unix.ENAMETOOLONG
	}
	return ioctl.Call(parent, ioctlDestroySubvolume, unsafe.Pointer(&arguments))
}

// unlockSubvolume makes a read-only subvolume writable. Other directories are unchanged.
func unlockSubvolume(fd int) error {
	btrfs, err := isOn(fd, unix.BTRFS_SUPER_MAGIC)
	if err != nil || !btrfs {
		return err
	}
	var flags uint64
	err = ioctl.Call(fd, ioctlGetSubvolumeFlags, unsafe.Pointer(&flags))
	if errors.Is(err, unix.EINVAL) {
		return nil // not the root of a subvolume
	}
	if err != nil || flags&subvolumeReadOnly == 0 {
		return err
	}
	flags &^= subvolumeReadOnly
	return ioctl.Call(fd, ioctlSetSubvolumeFlags, unsafe.Pointer(&flags))
}
