// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import "strings"

// local has the types of file systems that keep their bytes on this node and that a
// volume can be made of: they are written, and belong to this node alone. What is
// not named here is not asked anything either: network and FUSE file systems, whose
// servers may not answer; autofs, which mounts what it is asked about; the kernel's
// own (proc, sysfs, cgroup, devtmpfs); overlays, whose bytes belong to somebody
// else; those that several nodes share (gfs2, ocfs2); and read-only ones.
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

// Supported says whether a file system of this type (Mount.FSType) can be a volume.
// Ask before anything is asked of the file system itself: one that is not
// supported may never answer.
func Supported(fsType string) bool {
	kind, _, _ := strings.Cut(fsType, ".") // type.subtype
	return local[kind]
}
