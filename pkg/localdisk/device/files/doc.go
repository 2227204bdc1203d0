// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files empties the file system of a volume, and restores the state that its root had
// when it was first published.
//
// A Root holds no descriptor. Every method opens the volume's root, verifies it, works, and
// closes what it opened before it returns: a descriptor left open would prevent the host from
// unmounting.
//
// # Never beyond the volume
//
// Every directory is opened by openat2 relative to its parent's descriptor, one name at a
// time, following no symlink and crossing no mount, and everything is removed by name relative
// to such a descriptor. Directories that are exchanged for symlinks, moved or mounted over
// meanwhile are rejected by the kernel, not by an earlier check. A mount below the root, of
// another file system or of the same, stops the clean with a NestedMountError: before anything
// is deleted if the mount table shows it then, else on reaching it. FIFOs, sockets and devices
// are unlinked, never opened. A process that can move a directory out of the volume while it
// is being emptied (the volume's users cannot; their mounts end at its root) causes it to be
// emptied at its new place.
//
// # Bounded
//
// Names are read in batches of namesBytes, and a directory is entered at most levels below the
// root of its tree, which is the volume or a subvolume in it. A deeper one is moved up before
// it is entered, to a scratch directory in that root: neither the walk nor the kernel, which
// keeps the dentries above an open directory, needs memory proportional to the depth of a
// tree. A directory that cannot be moved is entered up to levelsRefused; what is below that is
// left, and is the error of the clean.
//
// A clean is at most maxPasses walks. A walk also ends if it finds more entries than the
// volume had when it began: an inode whose ctime is older than the walk accounts for as many
// entries as it has links, any other for none, and a walk that has found foreignLimit more
// than are accounted for concludes that the volume is being written. So does one that found
// contestedLimit entries gone, exchanged or filled again. The result is StillWrittenError.
package files
