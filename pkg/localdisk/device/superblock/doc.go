// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package superblock reads which file system is on a block device: its type and its UUID, as
// blkid prints them, for the types that kubelet formats devices with.
//
// A file system is reported only if its superblock is valid by the rules of libblkid, checksum
// included. kubelet formats a device on which blkid finds nothing, and blkid ignores a
// superblock with a wrong checksum: a magic number alone proves too little.
package superblock
