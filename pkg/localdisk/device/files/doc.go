// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files empties the file system of a volume, and puts its root back into
// the state in which it was first published.
//
// A Root holds no descriptor. Every method opens the volume's root, has it
// verified, works, and closes what it opened before it returns, whatever it
// returns: a descriptor left behind would keep the host from unmounting.
//
// # Never beyond the volume
//
// Every directory is opened by openat2 relative to its parent's descriptor, one
// name at a time, following no symlink and crossing no mount, and everything is
// removed by name relative to such a descriptor. Directories that are exchanged for
// symlinks, moved or mounted over meanwhile are refused by the kernel, not by a
// look beforehand. A mount below the root, of another file system or of the same,
// stops the clean with a NestedMountError: before anything is deleted if the mount
// table shows it then, else on reaching it. FIFOs, sockets and devices are
// unlinked, never opened. Whoever is able to move a directory out of the volume
// while it is being emptied (the volume's users are not; their mounts end at
// its root) has it emptied where it lies.
//
// # Bounded
//
// Names are read in batches of namesBytes, and a directory is entered at most levels
// below the root of its tree, which is the volume or a subvolume in it. A deeper one
// is moved up before it is entered, to a scratch directory in that root: neither the
// walk nor the kernel, which keeps the dentries above an open directory, needs memory
// for the depth of a tree. A directory that cannot be moved is entered up to
// levelsRefused; what lies below that is left, and is the error of the clean.
//
// A clean is at most maxPasses walks. A walk ends as well if it meets more entries than the
// volume held when it began: an inode whose ctime is older than the walk stands for
// as many entries as it has links, any other for none, and a walk that has met
// foreignLimit more than are accounted for has somebody writing before it. So has one
// that found contestedLimit entries gone, exchanged or filled again under its hands.
// Then the answer is StillWrittenError.
package files
