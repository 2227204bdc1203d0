// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of ioctl(2) for a file system's UUID.
const (
	getFSUUID     = 0x80111500 // FS_IOC_GETFSUUID, every file system, Linux 6.9
	getExt4UUID   = 0x8008662c // EXT4_IOC_GETFSUUID, Linux 6.0
	getXFSGeom    = 0x80705864 // XFS_IOC_FSGEOMETRY_V1
	getBtrfsInfo  = 0x8400941f // BTRFS_IOC_FS_INFO
	xfsGeomBytes  = 112
	xfsGeomUUID   = 64 // where in it the UUID is
	btrfsBytes    = 1024
	btrfsInfoUUID = 16
	uuidBytes     = 16
)

// fsUUID returns the UUID of a descriptor's file system, as text; empty when it has none. On
// kernels without the common request, those of the file systems are used, which return the
// same.
func fsUUID(fd int) (string, error) {
	uuid, err := commonUUID(fd)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		uuid, err = ownUUID(fd)
	}
	if err != nil {
		return "", fmt.Errorf("read the file system's UUID: %w", err)
	}
	if len(bytes.Trim(uuid, "\x00")) == 0 {
		return "", nil
	}
	if len(uuid) != uuidBytes {
		return hex.EncodeToString(uuid), nil
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:]), nil
}

func commonUUID(fd int) ([]byte, error) {
	var answer [1 + uuidBytes]byte // its length comes first
	if err := ask(fd, getFSUUID, answer[:]); err != nil {
		return nil, err
	}
	return answer[1 : 1+min(int(answer[0]), uuidBytes)], nil
}

// ownUUID returns nothing for file systems without a request of their own.
func ownUUID(fd int) ([]byte, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return nil, err
	}
	var uuid []byte
	var err error
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC:
		answer := make([]byte, 8+uuidBytes)
		binary.NativeEndian.PutUint32(answer, uuidBytes) // the requested size
		uuid, err = answer[8:], ask(fd, getExt4UUID, answer)
	case unix.XFS_SUPER_MAGIC:
		answer := make([]byte, xfsGeomBytes)
		uuid, err = answer[xfsGeomUUID:][:uuidBytes], ask(fd, getXFSGeom, answer)
	case unix.BTRFS_SUPER_MAGIC:
		answer := make([]byte, btrfsBytes)
		uuid, err = answer[btrfsInfoUUID:][:uuidBytes], ask(fd, getBtrfsInfo, answer)
	}
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	return uuid, err
}

func ask(fd int, request uint, answer []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&answer[0])))
	if errno != 0 {
		return errno
	}
	return nil
}
