// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe scans the discovery directories: file systems, block devices and plain
// directories that can be volumes, and why others cannot. The result are facts; package decide
// decides what is published.
//
// # What is accessed
//
// First the mount table, which is text: what is mounted at an entry is known before the entry
// is accessed, and a file system that is not mounts.Supported is never accessed, since its
// server may never answer. Then statx (without automounting, following symlinks, or asking a
// server), readlink, sysfs, and statfs. A device, a FIFO or a socket is never opened. The root
// of a file system, and a plain directory, is opened once for its UUID, and not again while
// the same mount or inode is there, so that repeated scans do no input or output on any
// device.
//
// # What does not answer
//
// Each entry is examined by its own goroutine, with a deadline. One that has not answered by
// then is TimedOut, and is not examined again before it has answered: a disk that does not
// answer costs one goroutine and one thread, however many scans follow. Only the kernel can
// end such a goroutine. They are the only ones that outlive a call.
//
// # Two views
//
// The provisioner in its container sees the discovery directory at disk.Folder.Path, the host
// at disk.Folder.HostPath, perhaps through symlinks that the container lacks. So the mount at
// an entry is determined by the provisioner's own mountinfo and Path. The host's mountinfo
// must have the same folder of the same file system mounted somewhere (paths are not
// compared): otherwise the provisioner sees a mount that the host has already unmounted. If
// the host has a mount at the entry's HostPath that the provisioner does not see, mounts do
// not propagate to its container. Either way it is MountMissing. Symlinks to devices are
// followed in the container: its /dev must be the host's.
package probe
