// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import "strings"

// local has the types of file systems that a volume can be made of: they are writable, and
// their bytes are on this node and belong to it alone. Others are never accessed: network and
// FUSE file systems, whose servers may not answer; autofs, which mounts on access; the
// kernel's own (proc, sysfs, cgroup, devtmpfs); overlays, whose bytes belong to other file
// systems; those shared by nodes (gfs2, ocfs2); and read-only ones.
var local = map[string]bool{
	"bcachefs": true,
	"btrfs":    true,
	"exfat":    true,
	"ext2":     true,
	"ext3":     true,
	"ext4":     true,
	"f2fs":     true,
	"hfsplus":  true,
	"jfs":      true,
	"nilfs2":   true,
	"ntfs3":    true,
	"ramfs":    true,
	"reiserfs": true,
	"tmpfs":    true,
	"vfat":     true,
	"xfs":      true,
	"zfs":      true,
	// FUSE on a local device (ntfs-3g). Its server may hang as any other.
	"fuseblk": true,
}

// Supported reports whether a file system of this type (Mount.FSType) can be a volume. Check
// this before any access to the file system: one that is not supported may never answer.
func Supported(fsType string) bool {
	kind, _, _ := strings.Cut(fsType, ".") // type.subtype
	return local[kind]
}
