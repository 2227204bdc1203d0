// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// device examines a block device, whose node is at a path, by sysfs alone.
func (e *entry) device(at string, st *unix.Statx_t) *disk.Fact {
	number := fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor)
	e.fact.Kind, e.fact.Device = disk.Device, at
	device, err := sysfs.Block(e.cfg.Sys, number)
	if err != nil {
		return e.fail(err) // nothing is found if the device of the node does not exist
	}
	e.fact.Place = "dev:" + number
	if e.fact.Bytes, err = device.Bytes("size"); err != nil {
		return e.fail(err)
	}
	if e.fact.Bytes == 0 {
		return e.reject(disk.NoCapacity, "the device %s has no bytes: no medium, or nothing attached", at)
	}
	if ro, err := device.Int("ro"); err != nil {
		return e.fail(err)
	} else if ro != 0 {
		e.reject(disk.DeviceReadOnly, "the device %s rejects writes: unless it was set read-only, it is failing", at)
	}
	e.deviceHealth(st.Rdev_major, st.Rdev_minor)
	if e.fact.Identity, err = e.identifier().OfDevice(number); err != nil {
		return e.fail(err)
	}
	if e.fact.Attachment, err = e.identifier().AttachmentOfDevice(number); err != nil {
		return e.fail(err)
	}
	return &e.fact
}
