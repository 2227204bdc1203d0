// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity determines the identity of disks. It reads the kernel's data only: sysfs
// for the hardware, statx and the file systems' ioctls for mounts. It reads no byte of a
// device and trusts no udev link, since those follow labels and UUIDs that users of a volume
// can write.
//
// The schemes are those of disk.Identity. The functions are safe for concurrent use. They
// return an error where the kernel reports nothing, never an identity that another disk of the
// same machine may have within the same boot. What another machine may repeat, such as the
// serial number of a virtual disk or the UUID of a file system from an image, is limited to
// the machine.
package identity

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

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

// OfDevice returns the identity of a block device: a path to its node, or
// "<major>:<minor>". The device is not opened. A partition's start is in bytes.
func (h Host) OfDevice(device string) (disk.Identity, error) {
	number, err := deviceNumber(device)
	if err != nil {
		return "", fmt.Errorf("identify device %s: %w", device, err)
	}
	found, err := sysfs.Block(h.Sys, number)
	if err != nil {
		return "", fmt.Errorf("identify device %s: %w", device, err)
	}
	id, err := h.ofBlock(found)
	if err != nil {
		return "", fmt.Errorf("identify device %s: %w", device, err)
	}
	return id, nil
}

// deviceNumber returns "<major>:<minor>".
func deviceNumber(device string) (string, error) {
	if !strings.Contains(device, "/") {
		major, minor, ok := strings.Cut(device, ":")
		_, err1 := strconv.ParseUint(major, 10, 32)
		_, err2 := strconv.ParseUint(minor, 10, 32)
		if !ok || err1 != nil || err2 != nil {
			return "", errors.New("neither a path nor a device number")
		}
		return device, nil
	}
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return "", fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", errors.New("not a block device")
	}
	return sysfs.Number(st.Rdev), nil
}

// ofBlock returns the identity of a disk or a partition.
func (h Host) ofBlock(device sysfs.Device) (disk.Identity, error) {
	whole, partition, err := device.Disk()
	if err != nil {
		return "", err
	}
	if partition {
		return h.ofPartition(device, whole)
	}
	name, err := h.ofHardware(device)
	if err != nil || name.text != "" {
		return name.identity(), err
	}
	attached, err := attachmentOf(device)
	if err != nil {
		return "", err
	}
	return compose("weak", attached.boot, attached.diskseq), nil
}

func (h Host) ofPartition(device, whole sysfs.Device) (disk.Identity, error) {
	start, err := device.Bytes("start")
	if err != nil {
		return "", err
	}
	from := strconv.FormatInt(start, 10)
	name, err := h.ofHardware(whole)
	if err != nil {
		return "", err
	}
	if name.text != "" {
		uuid, err := partitionUUID(device)
		name.text = "part:" + name.text + string(compose("", uuid, from))
		return name.identity(), err
	}
	attached, err := attachmentOf(whole)
	if err != nil {
		return "", err
	}
	return compose("weakpart", attached.boot, attached.diskseq, from), nil
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

// attachment identifies a disk without a number by where it is attached.
type attachment struct {
	boot string
	// diskseq is incremented when a disk is attached or a medium changed.
	diskseq string
}

func attachmentOf(device sysfs.Device) (attachment, error) {
	diskseq, err := device.Attribute("diskseq")
	if err != nil {
		return attachment{}, err
	}
	if diskseq == "" {
		// Its device number is reused in the same boot, so two disks could have the same
		// identity.
		return attachment{}, errors.New("it has no serial number, and the kernel (before 5.15) does not number disks")
	}
	boot, err := sysfs.BootID()
	return attachment{boot: boot, diskseq: tidy(diskseq)}, err
}

// AttachmentOfDevice returns the attachment of a block device, "<major>:<minor>"; that of a
// partition is its disk's. It is empty on kernels before 5.15, which do not number disks.
func (h Host) AttachmentOfDevice(number string) (disk.Attachment, error) {
	device, err := sysfs.Block(h.Sys, number)
	if err != nil {
		return "", fmt.Errorf("find the attachment of device %s: %w", number, err)
	}
	whole, _, err := device.Disk()
	if err != nil {
		return "", err
	}
	diskseq, err := whole.Attribute("diskseq")
	if err != nil || diskseq == "" {
		return "", err
	}
	boot, err := sysfs.BootID()
	if err != nil {
		return "", err
	}
	return disk.Attachment(boot + "/diskseq:" + tidy(diskseq)), nil
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
