// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import "slices"

func filesystems() []signature {
	uberblock := both("\x00\x00\x00\x00\x00\xba\xb1\x0c")
	zfs := each("zfs_member", uberblock)
	for i := range zfs {
		zfs[i].where = uberblocks
	}
	return slices.Concat(
		zfs,
		[]signature{
			one("ext2/ext3/ext4/jbd", "\x53\xef", kib+56),
			one("xfs", "XFSB", 0),
			{name: "xfs_external_log", magic: "\xfe\xed\xba\xbe", where: logHeaders},
			one("btrfs", "_BHRfS_M", 64*kib+64, 64*kib<<10+64, 256*gib+64),
			one("bcachefs", "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", 4*kib+24, 2*mib+24, -mib+24),
			one("ntfs", "NTFS    ", 3),
			one("ReFS", "ReFS", 3),
			one("exfat", "EXFAT   ", 3),
			one("f2fs", "\x10\x20\xf5\xf2", kib, 5*kib),
			one("apfs", "NXSB", 32),
			one("erofs", "\xe2\xe1\xf5\xe0", kib),
			one("zonefs", "SFOZ", 0),
			one("exfs", "EXFS", 0),
			{name: "nilfs2", magic: "\x34\x34", at: []int64{kib + 6}, where: nilfsCopy},
		},
		each("vfat", []string{"MSWIN", "FAT32   "}, 0x52),
		each("vfat", []string{"MSDOS", "FAT16   ", "FAT12   ", "FAT     "}, 0x36),
		each("iso9660", []string{"CD001"}, 32*kib+1),
		each("iso9660", []string{"CDROM"}, 32*kib+9),
		each("udf", []string{"BEA01", "BOOT2", "CDW02", "NSR02", "NSR03", "TEA01"}, 32*kib+1, 34*kib+1, 36*kib+1),
		each("squashfs", []string{"sqsh", "hsqs"}, 0),
	)
}

func oldFilesystems() []signature {
	var ufs []signature
	for _, magic := range []string{"\x00\x01\x19\x54", "\x19\x54\x01\x19", "\x00\x19\x56\x12", "\x00\x09\x50\x14", "\x00\x61\x21\x95", "\x05\x23\x19\x94"} {
		ufs = append(ufs, each("ufs", both(magic), 1372, 8*kib+1372, 64*kib+1372, 256*kib+1372)...)
	}
	var minix []signature
	for _, magic := range []string{"\x13\x7f", "\x13\x8f", "\x24\x68", "\x24\x78"} {
		minix = append(minix, each("minix", both(magic), kib+16)...)
	}
	return slices.Concat(
		ufs, minix,
		each("minix", both("\x4d\x5a"), kib+24),
		each("reiserfs", []string{"ReIsErFs", "ReIsEr2Fs", "ReIsEr3Fs"}, 8*kib+20, 8*kib+52, 64*kib+20, 64*kib+52),
		each("hfsplus", []string{"H+", "HX"}, kib),
		each("cramfs", both("\x28\xcd\x3d\x45"), 0),
		each("ocfs2", []string{"OCFSV2"}, kib, 2*kib, 4*kib, 8*kib),
		each("sysv", both("\xfd\x18\x7e\x20"), 1016, 9*kib+1016, 15*kib+1016, 18*kib+1016),
		each("xenix", []string{"\x2b\x55\x44", "\x44\x55\x2b"}, 2*kib),
		each("befs", both("BFS1"), 32, 512+32),
		[]signature{
			one("reiser4", "ReIsEr4", 64*kib),
			one("jfs", "JFS1", 32*kib),
			one("gfs/gfs2", "\x01\x16\x19\x70", 64*kib),
			one("hfs", "BD", kib),
			one("hpfs", "\x49\xe8\x95\xf9", 8*kib),
			one("romfs", "-rom1fs-", 0),
			one("ocfs", "OracleCFS", 8),
			one("vxfs", "\xf5\xfc\x01\xa5", kib),
			one("vxfs", "\xa5\x01\xfc\xf5", 8*kib),
			one("nss", "SPB5", 4*kib),
			one("ubifs", "\x31\x18\x10\x06", 0),
			one("bfs", "\xce\xfa\xad\x1b", 0),
			one("VMFS", "\x5e\xf1\xab\x2f", 2*mib),
		},
	)
}

// uberblocks is where ZFS keeps them: in the second half of each of its four labels
// of 256 KiB, two at either end.
func uberblocks(size int64) []int64 {
	const label = 256 * kib
	end := size &^ (label - 1)
	var all []int64
	for _, l := range []int64{0, label, end - 2*label, end - label} {
		for at := l + label/2; at < l+label; at += kib {
			all = append(all, at)
		}
	}
	return all
}

// logHeaders is where the log of an XFS has records at first.
func logHeaders(int64) []int64 {
	var all []int64
	for at := int64(0); at < 256*kib; at += 512 {
		all = append(all, at)
	}
	return all
}

// nilfsCopy is in the last but one whole block of 4 KiB.
func nilfsCopy(size int64) []int64 { return []int64{(size>>12-1)<<12 + 6} }
