// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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

// attributeNames lists the extended attributes, sorted; none if the file system has
// none.
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
