// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage finds what on a node uses a disk. For a candidate or a volume: does the node
// use it, or the disk that it is a part of, for something else (Survey.Claimed)? Before a
// device is published, and before any disk is cleaned: does anything at all use its bytes
// (Looker.Users)? After an error the disk must be treated as in use.
//
// Claimed is called at every scan, and reads sysfs and mountinfo only, which do not show every
// use: ZFS, DRBD, iSCSI targets (LIO) and mounts in other namespaces leave no trace there.
// Users asks the kernel, by opening the device with O_EXCL; sysfs and mountinfo only name what
// holds it. It also opens the loop devices of the node, which do not hold their backing device
// exclusively.
//
// Neither detects a process that has a device open without O_EXCL.
package usage
