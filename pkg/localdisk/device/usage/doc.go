// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage finds what on a node uses a disk. It answers two questions. As long as a
// disk is a candidate or a volume: does the node use it, or the disk that it is a part of,
// for something else (Survey.Claimed)? Before a device is published, and before any disk is
// cleaned: does anything at all use its bytes (Looker.Users)? An error is an answer too:
// the disk has to be treated as one in use.
//
// The first question is asked at every scan, and is answered from sysfs and mountinfo
// alone, which do not show every use: ZFS, DRBD, iSCSI targets (LIO) and mounts in other
// namespaces leave no trace there. The second one asks the kernel, by opening the device
// with O_EXCL; sysfs and mountinfo only name what holds it. It opens the loop devices of
// the node too, which do not hold what they are attached to exclusively.
//
// Neither sees a device that a process has open without O_EXCL.
package usage
