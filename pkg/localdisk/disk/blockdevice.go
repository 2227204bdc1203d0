// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

// BlockDevice is a block device of the node that is not a partition, as sysfs describes it.
type BlockDevice struct {
	// Path is the device's node in the provisioner's mount namespace ("/dev/sdb"), Number is
	// "<major>:<minor>".
	Path, Number string
	// Links are udev's links to the device node, by ID and by path; none without udev.
	Links []string
	// Identity is empty if the kernel reports nothing that identifies the device.
	Identity Identity
	// Transport is how it is attached; empty for one without hardware, such as a loop device.
	Transport Transport
	// Networked: it is a volume of a cloud or a SAN, which other machines can attach.
	Networked     bool
	Model, Serial string
	Bytes         int64
	// Rotational, Removable and ReadOnly are what the kernel says of the device.
	Rotational, Removable, ReadOnly bool
	// Partitions are the kernel's names of its partitions.
	Partitions []string
	// Users are what on the node uses the device or a partition of it.
	Users []User
	// Content identifies the content: another value means that the device was written to, or
	// attached again.
	Content string
}

// Transport is how a disk is attached to the node.
type Transport string

// The transports.
const (
	NVMe       Transport = "nvme"
	NVMeFabric Transport = "nvmf" // TCP, RDMA or Fibre Channel
	SATA       Transport = "sata"
	SAS        Transport = "sas"
	USB        Transport = "usb"
	MMC        Transport = "mmc" // eMMC and SD cards
	ISCSI      Transport = "iscsi"
	FC         Transport = "fc"
	Virtio     Transport = "virtio"
	VMBus      Transport = "vmbus" // Hyper-V
	Xen        Transport = "xen"
	SCSI       Transport = "scsi" // others that are attached by SCSI
	OtherBus   Transport = "other"
)
