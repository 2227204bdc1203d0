// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sysfs reads the attributes of block devices in sysfs.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is the directory of a block device. That of a partition is in its disk's.
type Device string

// Block returns the device with a number, "<major>:<minor>". fs.ErrNotExist means that there is
// none. root is where sysfs is.
func Block(root, number string) (Device, error) {
	folder, err := filepath.EvalSymlinks(filepath.Join(root, "dev/block", number))
	return Device(folder), err
}

// Number formats a device number of stat(2) as "<major>:<minor>".
func Number(dev uint64) string { return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)) }

// Disk returns the disk of a partition; any other device is its own.
func (d Device) Disk() (disk Device, partition bool, err error) {
	text, err := d.Attribute("partition")
	if err != nil || text == "" {
		return d, false, err
	}
	return Device(filepath.Dir(string(d))), true, nil
}

// Attribute returns the content of a file; empty if it does not exist or the device does not
// support it. An error means unknown, which differs from missing.
func (d Device) Attribute(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(string(d), name))
	switch {
	case err == nil:
		return string(b), nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENXIO):
		return "", nil
	default:
		return "", fmt.Errorf("read sysfs: %w", err)
	}
}

// Int returns the number in a file, which is not negative. A missing file is fs.ErrNotExist.
func (d Device) Int(name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(string(d), name))
	if err != nil {
		return 0, fmt.Errorf("read sysfs: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s in sysfs is %q", name, text)
	}
	return n, nil
}

// Bytes returns the number of sectors in a file, in bytes.
func (d Device) Bytes(name string) (int64, error) {
	const sectorBytes = 512 // independent of the disk's own sectors
	n, err := d.Int(name)
	if err == nil && n > math.MaxInt64/sectorBytes {
		err = fmt.Errorf("%s in sysfs is %d", name, n)
	}
	if err != nil {
		return 0, err
	}
	return n * sectorBytes, nil
}

// BootID returns the UUID of this start of the node, which is the same in every namespace.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot ID: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
