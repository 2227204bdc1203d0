// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/ioctl"
)

// attributesBytes is how much of extended attributes is recorded; more is an error,
// because it has to fit into the node's record.
const attributesBytes = 256 << 10

// selinux is the attribute with the label. It is restored where possible and never removed:
// the policy assigns one to every inode, stored or not.
const selinux = "security.selinux"

// kernelManaged reports whether the kernel maintains an attribute itself.
func kernelManaged(name string) bool {
	return name == "security.evm" || name == "security.ima" ||
		strings.HasPrefix(name, "trusted.SGI_ACL_") // how xfs stores what system.posix_acl_* show
}

// attributeNames lists the extended attributes, sorted; none if the file system has none.
func attributeNames(fd int) ([]string, error) {
	list, err := sized(func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
	if unsupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	var names []string
	for name := range strings.SplitSeq(string(list), "\x00") {
		if name != "" && !kernelManaged(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// readAttribute returns the value of an attribute; false if it does not exist.
func readAttribute(fd int, name string) ([]byte, bool, error) {
	value, err := sized(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
	if errors.Is(err, unix.ENODATA) || unsupported(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read attribute %q: %w", name, err)
	}
	return value, true, nil
}

// readAttributes returns the extended attributes, sorted by name.
func readAttributes(fd int) ([]attribute, error) {
	names, err := attributeNames(fd)
	if err != nil {
		return nil, err
	}
	var found []attribute
	total := 0
	for _, name := range names {
		value, there, err := readAttribute(fd, name)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		if total += len(name) + len(value); total > attributesBytes {
			return nil, fmt.Errorf("read attributes: more than %d bytes: %w", attributesBytes, unix.E2BIG)
		}
		found = append(found, attribute{Name: []byte(name), Value: value})
	}
	return found, nil
}

// writeAttributes removes unwanted attributes and sets those that differ, in any number.
func writeAttributes(fd int, want []attribute) error {
	wanted := map[string]bool{selinux: true}
	for _, a := range want {
		wanted[string(a.Name)] = true
	}
	if err := removeAttributes(fd, func(name string) bool { return !wanted[name] }); err != nil {
		return err
	}
	for _, a := range want {
		if err := writeAttribute(fd, string(a.Name), a.Value); err != nil {
			return err
		}
	}
	return nil
}

// removeAttributes removes the attributes whose names are unwanted, in any number; if there
// are more than can be listed, others of users may be removed too.
func removeAttributes(fd int, unwanted func(name string) bool) error {
	names, err := attributeNames(fd)
	if errors.Is(err, unix.E2BIG) {
		if err := removeExcess(fd); err != nil {
			return err
		}
		names, err = attributeNames(fd)
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if !unwanted(name) {
			continue
		}
		if err := unix.Fremovexattr(fd, name); err != nil && err != unix.ENODATA {
			return fmt.Errorf("remove attribute %q: %w", name, err)
		}
	}
	return nil
}

func writeAttribute(fd int, name string, value []byte) error {
	if kernelManaged(name) {
		return nil
	}
	have, there, err := readAttribute(fd, name)
	if err != nil || there && bytes.Equal(have, value) {
		return err
	}
	err = unix.Fsetxattr(fd, name, value, 0)
	if err != nil && (name != selinux || !unsupported(err)) {
		return fmt.Errorf("set attribute %q: %w", name, err)
	}
	return nil
}

// sized calls with a buffer that is large enough.
func sized(call func(buf []byte) (int, error)) ([]byte, error) {
	for range retries {
		n, err := call(nil)
		if err != nil || n == 0 {
			return nil, err
		}
		buf := make([]byte, n)
		n, err = call(buf)
		if errors.Is(err, unix.ERANGE) {
			continue // it has grown meanwhile
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
	return nil, unix.ERANGE
}

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

// btrfsNames returns the names of user.* attributes in items of a tree: each is a header that
// ends in the size of what follows, which is entries of a head, a name and a value.
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
