// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import "testing"

func TestSupported(t *testing.T) {
	for _, fsType := range []string{
		"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "exfat", "ntfs3", "zfs", "bcachefs", "jfs", "nilfs2",
		"tmpfs", "ramfs", "hfsplus", "fuseblk", "fuseblk.ntfs-3g",
	} {
		if !Supported(fsType) {
			t.Errorf("%s is not supported", fsType)
		}
	}
	for _, fsType := range []string{
		"", "autofs", "overlay", "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs",
		"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "lustre", "gfs2", "ocfs2",
		"fuse", "fuse.sshfs", "fuse.xfs", "fuse.glusterfs", "squashfs", "iso9660", "erofs", "something.new",
	} {
		if Supported(fsType) {
			t.Errorf("%s is supported", fsType)
		}
	}
}
