// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// sectorBytes is the unit of size in sysfs, independent of the disk's own.
const sectorBytes = 512

// device examines a block device, whose node is at a path, by sysfs alone.
func (e *entry) device(at string, st *unix.Statx_t) found {
	number := fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor)
	e.fact.Kind, e.fact.Device = disk.Device, at
	folder, err := filepath.EvalSymlinks(filepath.Join(e.cfg.Sys, "dev/block", number))
	if err != nil {
		return e.fail(err) // a node whose device is gone leads nowhere
	}
	e.fact.Place = "dev:" + number
	sectors, err := number64(folder, "size")
	if err != nil {
		return e.fail(err)
	}
	if e.fact.Bytes = sectors * sectorBytes; e.fact.Bytes == 0 {
		return e.refuse(disk.Empty, "the device %s has no bytes: no medium, or nothing attached", at)
	}
	if ro, err := number64(folder, "ro"); err != nil {
		return e.fail(err)
	} else if ro != 0 {
		e.refuse(disk.DeviceReadOnly, "the device %s rejects writes: unless it was set read-only, it is failing", at)
	}
	e.deviceHealth(st.Rdev_major, st.Rdev_minor)
	if e.fact.Identity, err = e.identifier().OfDevice(number); err != nil {
		return e.fail(err)
	}
	if e.fact.Attachment, err = e.identifier().AttachmentOfDevice(number); err != nil {
		return e.fail(err)
	}
	return e.found()
}

func number64(folder, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return 0, fmt.Errorf("read sysfs: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/sectorBytes {
		return 0, fmt.Errorf("%s in sysfs is %q", name, text)
	}
	return n, nil
}
