// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe looks into the discovery directories and says what lies there: file
// systems, block devices and plain directories that can be volumes, and why the
// others cannot. What it finds are facts; what is published is decided elsewhere.
//
// # What is touched
//
// First the mount table, which is text: what is mounted at an entry is known before
// the entry is asked anything, and a file system of another type than those of
// mounts.Supported is asked nothing at all, since its server may never answer. Then
// statx (without automounting, without following symlinks, without asking a server
// for news), readlink, sysfs, and statfs. A device, a FIFO or a socket is never
// opened. The root of a file system, and a plain directory, is opened once for its
// UUID, and not again as long as the same mount or inode is there, so that scanning
// again does no input or output on any device.
//
// # What does not answer
//
// Each entry is looked at by a goroutine of its own, with a deadline. One that has not
// answered by then is TimedOut, and is not asked again before it has answered:
// a disk that is gone costs one goroutine and one thread, however long it is
// looked for. Nothing can end such a goroutine but the kernel. They are the only ones
// that outlive a call.
//
// # Two views
//
// The agent in its container sees the discovery directory at disk.Folder.Path, the
// host at disk.Folder.HostPath, and perhaps through symlinks that the agent lacks.
// What is mounted at an entry is therefore told by the agent's own mountinfo and
// Path. The host's mountinfo must have the same folder of the same file system
// mounted somewhere (paths are not compared): if it has not, the agent looks at a
// mount that the host has already taken away. If it has a mount at the entry's
// HostPath and the agent sees none, mounts do not reach the agent's container. Either
// way it is MountMissing. Without the host's mountinfo the agent's is taken for it.
// Symlinks to devices are followed as the agent sees them: its /dev has to be the
// host's.
package probe
