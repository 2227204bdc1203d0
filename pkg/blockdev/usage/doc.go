// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage finds what on a node uses a disk. It answers two questions. Before a
// disk is offered: does the node use it, or the disk that it is a part of, for
// something else (Survey.Claimed)? Before a disk is cleaned: does anything at all
// use its bytes (Looker.Users)? An error is an answer too: the disk has to be
// treated as one in use.
//
// The first question is asked often, and is answered from sysfs and from mountinfo
// alone. The second one opens the device, and the loop devices of the node.
//
// Neither sees a device that a process merely holds open, without asking for it
// alone, nor mounts of namespaces other than that of the mountinfo file.
package usage
