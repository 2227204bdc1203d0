// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/ioctl"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// OfMount returns the identity of a mounted file system and its mounted folder. The mount is one
// of this process's own mount namespace, and path leads to it. The root of the mount is opened
// for a moment, so check first whether the type of file system is supported (mounts.Supported).
//
// A file system in memory is identified by the UUID that the kernel assigns when it is
// created. The mount's own ID is unsuitable: each container has other mounts of the same file
// system, and new ones whenever it starts.
func (h Host) OfMount(m *mounts.Mount, path string) (disk.Identity, error) {
	root, err := openFolder(path)
	if err != nil {
		return "", err
	}
	defer root.close()
	if root.mount != 0 && root.mount != uint64(m.ID) {
		return "", errors.New("another file system has been mounted there, or this one unmounted")
	}
	uuid, err := fsUUID(root.fd)
	if err != nil {
		return "", err
	}
	memory := m.FSType == "tmpfs" || m.FSType == "ramfs"
	if uuid != "" && !memory {
		name, err := h.onMachine("fs", uuid, m.Root)
		return name.identity(), err
	}
	boot, err := sysfs.BootID()
	if err != nil {
		return "", err
	}
	if !memory {
		return compose("weakfs", boot, h.attachedAs(m), m.Root), nil
	}
	switch {
	case uuid != "":
		return compose("mem", boot, uuid, m.Root), nil
	case root.birth != "":
		return compose("mem", boot, root.device, root.inode, root.birth), nil
	default:
		return compose("mem", boot, strconv.Itoa(m.ID)), nil
	}
}

// OfDirectory returns the identity of a plain directory. It is opened for a moment, so check
// first whether the type of file system is supported.
func (h Host) OfDirectory(path string) (disk.Identity, error) {
	folder, err := openFolder(path)
	if err != nil {
		return "", err
	}
	defer folder.close()
	uuid, err := fsUUID(folder.fd)
	if err != nil {
		return "", err
	}
	if uuid != "" && folder.birth != "" {
		name, err := h.onMachine("dir", uuid, folder.inode, folder.birth)
		return name.identity(), err
	}
	boot, err := sysfs.BootID()
	if err != nil {
		return "", err
	}
	return compose("weakdir", boot, folder.device, folder.inode), nil
}

// attachedAs returns the diskseq of the disk and the start of the partition of a file system
// without a UUID, or the file system's device number.
func (h Host) attachedAs(m *mounts.Mount) string {
	number := fmt.Sprintf("%d.%d", m.Major, m.Minor)
	device, err := sysfs.Block(h.Sys, fmt.Sprintf("%d:%d", m.Major, m.Minor))
	if err != nil {
		return number
	}
	whole, partition, err := device.Disk()
	start := ""
	if err == nil && partition {
		at, err := device.Bytes("start")
		if err != nil {
			return number
		}
		start = "+" + strconv.FormatInt(at, 10)
	}
	diskseq, err := whole.Attribute("diskseq")
	if err != nil || diskseq == "" {
		return number
	}
	return tidy(diskseq) + start
}

// folder is an open directory.
type folder struct {
	fd int
	// mount is the ID in mountinfo, 0 on kernels before 5.8.
	mount         uint64
	device, inode string
	// birth is in seconds and nanoseconds; empty when the file system keeps none.
	birth string
}

func openFolder(path string) (*folder, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := &folder{fd: fd}
	var st unix.Statx_t
	mask := unix.STATX_TYPE | unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, mask, &st); err != nil {
		f.close()
		return nil, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	f.device = fmt.Sprintf("%d.%d", st.Dev_major, st.Dev_minor)
	f.inode = strconv.FormatUint(st.Ino, 10)
	if st.Mask&unix.STATX_MNT_ID != 0 {
		f.mount = st.Mnt_id
	}
	if st.Mask&unix.STATX_BTIME != 0 && st.Btime.Sec != 0 {
		f.birth = fmt.Sprintf("%d.%09d", st.Btime.Sec, st.Btime.Nsec)
	}
	return f, nil
}

func (f *folder) close() { _ = unix.Close(f.fd) }

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
// kernels without the common request, those of the file systems are used, which return the same.
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
