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
