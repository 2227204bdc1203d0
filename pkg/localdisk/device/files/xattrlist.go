// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/ioctl"
)

// listxattr(2) lists at most 64 KiB of names, and fails with E2BIG if there are more.
// Users with the right to write in a directory of xfs or btrfs can attach more, all of
// them named user.*. These are listed by ioctls of the file systems.

// userAttribute is the namespace of attributes that need no privilege.
const userAttribute = "user."

// removeExcess removes user.* attributes of a directory until the rest can be listed.
func removeExcess(fd int) error {
	list := xfsUserAttributes
	btrfs, err := isOn(fd, unix.BTRFS_SUPER_MAGIC)
	if err != nil {
		return err
	}
	if btrfs {
		list = btrfsUserAttributes
	}
	for {
		if _, err := attributeNames(fd); !errors.Is(err, unix.E2BIG) {
			return err
		}
		names, err := list(fd)
		if err != nil {
			return fmt.Errorf("list more attributes than listxattr does: %w", err)
		}
		removed := 0
		for _, name := range names {
			switch err := unix.Fremovexattr(fd, name); {
			case err == nil:
				removed++
			case err != unix.ENODATA:
				return fmt.Errorf("remove attribute %q: %w", name, err)
			}
		}
		if removed == 0 {
			return unix.E2BIG
		}
	}
}

const (
	xfsHandleBytes = 24
	xfsListBytes   = 64 << 10

	ioctlXFSHandle     = ioctl.Read | ioctl.Write | unsafe.Sizeof(xfsHandleRequest{})<<16 | 'X'<<8 | 106
	ioctlXFSAttributes = ioctl.Write | unsafe.Sizeof(xfsListRequest{})<<16 | 'X'<<8 | 122
)

// xfsHandleRequest is struct xfs_fsop_handlereq of xfs_fs.h.
type xfsHandleRequest struct {
	fd       uint32
	path     uintptr
	flags    uint32
	in       unsafe.Pointer
	inBytes  uint32
	out      unsafe.Pointer
	outBytes *uint32
}

// xfsListRequest is struct xfs_fsop_attrlist_handlereq of xfs_fs.h. Its flags are zero
// for attributes of users.
type xfsListRequest struct {
	handle xfsHandleRequest
	cursor [4]uint32
	flags  uint32
	bytes  uint32
	list   unsafe.Pointer
}

// xfsUserAttributes returns the first user.* attributes of a directory of xfs.
func xfsUserAttributes(fd int) ([]string, error) {
	var handle [xfsHandleBytes]byte
	size := uint32(len(handle))
	list := make([]byte, xfsListBytes)
	of := xfsHandleRequest{fd: uint32(fd), out: unsafe.Pointer(&handle[0]), outBytes: &size}
	if err := ioctl.Call(fd, uint(ioctlXFSHandle), unsafe.Pointer(&of)); err != nil {
		return nil, fmt.Errorf("get file handle: %w", err)
	}
	request := xfsListRequest{
		handle: xfsHandleRequest{flags: unix.O_DIRECTORY, in: unsafe.Pointer(&handle[0]), inBytes: size},
		bytes:  uint32(len(list)), list: unsafe.Pointer(&list[0]),
	}
	if err := ioctl.Call(fd, uint(ioctlXFSAttributes), unsafe.Pointer(&request)); err != nil {
		return nil, err
	}
	return xfsNames(list)
}

// xfsNames returns the names in a struct xfs_attrlist: a number, a flag, that many
// offsets of entries, each of which is the size of the value and the name.
func xfsNames(list []byte) ([]string, error) {
	var names []string
	count := binary.NativeEndian.Uint32(list)
	for i := range uint64(count) {
		if 8+4*i+4 > uint64(len(list)) {
			return nil, unix.EUCLEAN
		}
		at := uint64(binary.NativeEndian.Uint32(list[8+4*i:])) + 4
		if at > uint64(len(list)) {
			return nil, unix.EUCLEAN
		}
		name, _, _ := bytes.Cut(list[at:], []byte{0})
		names = append(names, userAttribute+string(name))
	}
	return names, nil
}

const (
	btrfsAttributeItem = 24
	btrfsSearchBytes   = 64 << 10
	btrfsHeaderBytes   = 32
	btrfsEntryBytes    = 30

	ioctlBtrfsSearch = ioctl.Read | ioctl.Write | 112<<16 | 0x94<<8 | 17
)

// btrfsSearch is struct btrfs_ioctl_search_args_v2 of linux/btrfs.h.
type btrfsSearch struct {
	tree, firstObject, lastObject, firstOffset, lastOffset, firstChange, lastChange uint64

	firstType, lastType, items, _ uint32

	_     [4]uint64
	bytes uint64
	found [btrfsSearchBytes]byte
}

// btrfsUserAttributes returns the first user.* attributes of a directory of btrfs.
func btrfsUserAttributes(fd int) ([]string, error) {
	st, err := statDescriptor(fd)
	if err != nil {
		return nil, err
	}
	search := btrfsSearch{
		firstObject: st.Ino, lastObject: st.Ino, lastOffset: ^uint64(0), lastChange: ^uint64(0),
		firstType: btrfsAttributeItem, lastType: btrfsAttributeItem, items: ^uint32(0), bytes: btrfsSearchBytes,
	}
	if err := ioctl.Call(fd, ioctlBtrfsSearch, unsafe.Pointer(&search)); err != nil {
		return nil, err
	}
	return btrfsNames(search.found[:], search.items)
}

// btrfsNames returns the names of user.* attributes in items of a tree: each is a
// header that ends in the size of what follows, which is entries of a head, a name and
// a value.
func btrfsNames(found []byte, items uint32) ([]string, error) {
	var names []string
	for range items {
		if len(found) < btrfsHeaderBytes {
			return nil, unix.EUCLEAN
		}
		size := uint64(binary.NativeEndian.Uint32(found[28:]))
		found = found[btrfsHeaderBytes:]
		if size > uint64(len(found)) {
			return nil, unix.EUCLEAN
		}
		item := found[:size]
		found = found[size:]
		for len(item) >= btrfsEntryBytes {
			value, name := int(binary.LittleEndian.Uint16(item[25:])), int(binary.LittleEndian.Uint16(item[27:]))
			item = item[btrfsEntryBytes:]
			if name+value > len(item) {
				return nil, unix.EUCLEAN
			}
			if bytes.HasPrefix(item, []byte(userAttribute)) {
				names = append(names, string(item[:name]))
			}
			item = item[name+value:]
		}
	}
	return names, nil
}
