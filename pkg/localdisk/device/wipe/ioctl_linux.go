// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rangeIoctl calls one of the ioctls that take a range: first byte and length.
func (d *device) rangeIoctl(request uint, s stretch) error {
	span := [2]uint64{uint64(s.from), uint64(s.to - s.from)}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd()), uintptr(request), uintptr(unsafe.Pointer(&span)))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

func unsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOSYS)
}
