// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity tells one disk from another. It asks the kernel alone: sysfs for
// what the hardware says of itself, statx and the file systems' ioctls for what is
// mounted. No byte of a device is read, and no link of udev believed, since those
// follow labels and UUIDs that whoever uses a volume can write.
//
// The schemes are those of disk.Identity. The functions may be called concurrently.
// They return an error where the kernel reports nothing, never an identity that another
// disk of the same machine may have within the same boot. Whatever another machine may
// repeat, such as the serial number of a virtual disk or the UUID of a file system from an
// image, is limited to the machine.
package identity
