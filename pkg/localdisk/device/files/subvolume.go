// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/ioctl"
)

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
