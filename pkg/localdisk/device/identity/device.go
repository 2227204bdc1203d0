// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity determines the identity of disks. It reads the kernel's data only: sysfs for
// the hardware, statx and the file systems' ioctls for mounts. It reads no byte of a device and
// trusts no udev link, since those follow labels and UUIDs that users of a volume can write.
//
// The schemes are those of disk.Identity. The functions are safe for concurrent use. They return
// an error where the kernel reports nothing, never an identity that another disk of the same
// machine may have within the same boot. What another machine may repeat, such as the serial
// number of a virtual disk or the UUID of a file system from an image, is limited to the machine.
package identity

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Host reads identities.
type Host struct {
	// Sys is where sysfs is, most often "/sys".
	Sys string
	// Machine is what ReadMachine returned. Without it, serial numbers and the UUIDs of file
	// systems identify a disk until the machine restarts.
	Machine string
}

var numberForm = regexp.MustCompile(`^\d{1,10}:\d{1,10}$`)

// OfDevice returns the identity of a block device by its number, "<major>:<minor>". The device is
// not opened. A partition's start is in bytes.
func (h Host) OfDevice(number string) (disk.Identity, error) {
	var found sysfs.Device
	err := errors.New("not a device number")
	if numberForm.MatchString(number) {
		found, err = sysfs.Block(h.Sys, number)
	}
	var id disk.Identity
	if err == nil {
		id, err = h.ofBlock(found)
	}
	if err != nil {
		return "", fmt.Errorf("identify device %s: %w", number, err)
	}
	return id, nil
}

// ofBlock returns the identity of a disk or a partition.
func (h Host) ofBlock(device sysfs.Device) (disk.Identity, error) {
	whole, partition, err := device.Disk()
	if err != nil {
		return "", err
	}
	weak, from := "weak", []string(nil)
	if partition {
		start, err := device.Bytes("start")
		if err != nil {
			return "", err
		}
		weak, from = "weakpart", []string{strconv.FormatInt(start, 10)}
	}
	name, err := h.ofHardware(whole)
	switch {
	case err != nil:
		return "", err
	case name.text == "":
		boot, diskseq, err := attachmentOf(whole)
		if err == nil && diskseq == "" {
			// Its device number is reused in the same boot, so two disks could have the same
			// identity.
			err = errors.New("it has no serial number, and the kernel (before 5.15) does not number disks")
		}
		if err != nil {
			return "", err
		}
		return compose(weak, append([]string{boot, diskseq}, from...)...), nil
	case partition:
		uuid, err := partitionUUID(device)
		name.text = "part:" + name.text + string(compose("", append([]string{uuid}, from...)...))
		return name.identity(), err
	default:
		return name.identity(), nil
	}
}

// partitionUUID returns the partition's name in the partition table; empty when it has none,
// or the kernel did not read the table itself.
func partitionUUID(device sysfs.Device) (string, error) {
	lines, err := device.Attribute("uevent")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(lines) {
		if uuid, ok := strings.CutPrefix(line, "PARTUUID="); ok {
			return strings.ToLower(tidy(uuid)), nil
		}
	}
	return "", nil
}

// attachmentOf returns what identifies a disk without a number by where it is attached: the
// start of the node, and the disk's diskseq, which is incremented when a disk is attached or a
// medium changed. Both are empty on kernels before 5.15, which do not number disks.
func attachmentOf(whole sysfs.Device) (boot, diskseq string, err error) {
	diskseq, err = whole.Attribute("diskseq")
	if err != nil || diskseq == "" {
		return "", "", err
	}
	boot, err = sysfs.BootID()
	return boot, tidy(diskseq), err
}

// AttachmentOfDevice returns the attachment of a block device, "<major>:<minor>"; that of a
// partition is its disk's. It is empty on kernels before 5.15.
func (h Host) AttachmentOfDevice(number string) (disk.Attachment, error) {
	device, err := sysfs.Block(h.Sys, number)
	if err != nil {
		return "", fmt.Errorf("find the attachment of device %s: %w", number, err)
	}
	whole, _, err := device.Disk()
	if err != nil {
		return "", err
	}
	boot, diskseq, err := attachmentOf(whole)
	if err != nil || diskseq == "" {
		return "", err
	}
	return disk.Attachment(boot + "/diskseq:" + diskseq), nil
}

// AttachmentOfMount returns the attachment of a file system by the ID of its mount. unique
// is STATX_MNT_ID_UNIQUE: the ID is given to no other mount until the node restarts.
func AttachmentOfMount(id uint64, unique bool) (disk.Attachment, error) {
	boot, err := sysfs.BootID()
	if err != nil {
		return "", err
	}
	kind := "mount-id"
	if unique {
		kind = "mount"
	}
	return disk.Attachment(fmt.Sprintf("%s/%s:%d", boot, kind, id)), nil
}
