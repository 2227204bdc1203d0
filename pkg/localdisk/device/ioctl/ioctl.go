// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ioctl makes the ioctl(2) requests that golang.org/x/sys/unix does not have.
package ioctl

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The directions of a request, which some architectures encode otherwise. A request is
// direction | size of the argument << 16 | type << 8 | number.
const (
	Read  = unix.FS_IOC_GETFLAGS &^ 0x1fffffff
	Write = unix.FS_IOC_SETFLAGS &^ 0x1fffffff
)

// Call makes a request, again if a signal interrupts it.
func Call(fd int, request uint, argument unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(argument))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}
