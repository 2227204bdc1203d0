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

	"stowage.dev/stowage/pkg/localdisk/device/ioctl"
)

// Requests of ioctl(2) for a file system's UUID.
const (
	getFSUUID     = ioctl.Read | (1+uuidBytes)<<16 | 0x15<<8     // FS_IOC_GETFSUUID (number 0), every file system, Linux 6.9
	getExt4UUID   = ioctl.Read | 8<<16 | 'f'<<8 | 44             // EXT4_IOC_GETFSUUID, Linux 6.0
	getXFSGeom    = ioctl.Read | xfsGeomBytes<<16 | 'X'<<8 | 100 // XFS_IOC_FSGEOMETRY_V1
	getBtrfsInfo  = ioctl.Read | btrfsBytes<<16 | 0x94<<8 | 31   // BTRFS_IOC_FS_INFO
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
	if err := ioctl.Call(fd, getFSUUID, unsafe.Pointer(&answer[0])); err != nil {
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
		uuid, err = answer[8:], ioctl.Call(fd, getExt4UUID, unsafe.Pointer(&answer[0]))
	case unix.XFS_SUPER_MAGIC:
		answer := make([]byte, xfsGeomBytes)
		uuid, err = answer[xfsGeomUUID:][:uuidBytes], ioctl.Call(fd, getXFSGeom, unsafe.Pointer(&answer[0]))
	case unix.BTRFS_SUPER_MAGIC:
		answer := make([]byte, btrfsBytes)
		uuid, err = answer[btrfsInfoUUID:][:uuidBytes], ioctl.Call(fd, getBtrfsInfo, unsafe.Pointer(&answer[0]))
	}
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	return uuid, err
}
