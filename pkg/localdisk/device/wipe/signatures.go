// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import "slices"

// signature identifies a format. The offsets are in bytes; negative ones are from the device's
// end, the size rounded down to whole sectors of 512 bytes.
type signature struct {
	// name is that of libblkid where it has one.
	name  string
	magic string
	at    []int64
	// where adds offsets that depend on the device's size.
	where func(size int64) []int64
}

// find returns where the signature is; -1 if it is nowhere.
func (s signature) find(m *image) (int64, error) {
	at := s.at
	end := m.size &^ 511
	if s.where != nil {
		at = slices.Concat(at, s.where(end))
	}
	for _, o := range at {
		if o < 0 {
			o += end
		}
		if holds, err := m.holds(s.magic, o); holds || err != nil {
			return o, err
		}
	}
	return -1, nil
}

// format is a format with its signatures, one for each magic.
type format struct {
	name   string
	at     offsets
	magics []string
	where  func(size int64) []int64
}

type offsets = []int64

func one(name string, at offsets, magics ...string) format {
	return format{name: name, at: at, magics: magics}
}

func signatures() []signature {
	var all []signature
	for _, f := range formats {
		for _, magic := range f.magics {
			all = append(all, signature{f.name, magic, f.at, f.where})
		}
	}
	return all
}

// both returns magic numbers in both byte orders.
func both(magics ...string) []string {
	var all []string
	for _, magic := range magics {
		swapped := []byte(magic)
		slices.Reverse(swapped)
		all = append(all, magic, string(swapped))
	}
	return all
}

// swap is known for pages of 4 to 64 KiB.
var swap = offsets{4*kib - 10, 8*kib - 10, 16*kib - 10, 32*kib - 10, 64*kib - 10}

func sectors(numbers ...int64) offsets {
	for i := range numbers {
		numbers[i] *= 512
	}
	return numbers
}

// mdAtEnd is where Linux RAID keeps superblocks of version 0.90, in the last but one
// 64 KiB that are whole, and of version 1.0, 8 KiB before the end, at 4 KiB.
func mdAtEnd(size int64) []int64 {
	return []int64{size&^(64*kib-1) - 64*kib, (size - 8*kib) &^ (4*kib - 1)}
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

// formats are what is searched for.
var formats = []format{
	// Partition tables.
	one("gpt", offsets{512, 4096, -512, -4096}, "EFI PART"),
	one("dos", offsets{510}, "\x55\xaa"),
	one("mac", offsets{512, 1024, 2048}, "PM\x00\x00"),
	one("sun", offsets{508}, "\xda\xbe"),
	one("solaris", offsets{524}, "\xee\xde\x0d\x60"),
	one("aix", offsets{0}, "\xc9\xc2\xd4\xc1"),
	one("ultrix", offsets{16*kib - 72}, "\x57\x29\x03\x00"),
	one("unixware", offsets{29*512 + 4}, "\x0d\x60\x5e\xca"),
	one("bsd", offsets{0, 64, 128, 512}, "\x57\x45\x56\x82"),
	one("sgi", offsets{0}, "\x0b\xe5\xa9\x41"),

	// RAID.
	{"linux_raid_member", offsets{0, 4 * kib}, both("\xa9\x2b\x4e\xfc"), mdAtEnd},
	one("ddf_raid_member", offsets{-0x200, -0x20200}, both("\xde\x11\xde\x11")...),
	one("hpt45x_raid_member", offsets{-11 * 512}, "\xf3\x16\x78\x5a", "\xfd\x16\x78\x5a"),
	one("hpt37x_raid_member", offsets{9*512 + 32}, "\xf0\x16\x78\x5a", "\xfd\x16\x78\x5a"),
	one("isw_raid_member", offsets{-1024, -8192}, "Intel Raid ISM Cfg Sig. "),
	one("lsi_mega_raid_member", offsets{-512}, "$XIDE$"),
	one("via_raid_member", offsets{-512}, "\x55\xaa"),
	one("silicon_medley_raid_member", offsets{-512 + 0x60}, "\x00\x00\x00\x2f"),
	one("nvidia_raid_member", offsets{-1024}, "NVIDIA"),
	one("promise_fasttrack_raid_member", sectors(-63, -255, -256, -16, -399, -591, -675, -735, -911, -974, -991, -951, -3087), "Promise Technology, Inc."),
	one("adaptec_raid_member", offsets{-512}, "\x37\xfc\x4d\x1e"),
	one("jmicron_raid_member", offsets{-512}, "JM"),

	// Containers of other formats: volume managers, encryption, caches, replication.
	one("LVM2_member", offsets{24, 512 + 24, 1024 + 24, 1536 + 24}, "LVM2 001"),
	one("LVM2_member", offsets{0, 512, 1024, 1536}, "LABELONE"),
	one("drbd", offsets{-4096 + 60}, "\x83\x74\x02\x6b", "\x83\x74\x02\x6c", "\x83\x74\x02\x6d"),
	one("stratis", offsets{512 + 4, 9*512 + 4}, "!Stra0tis\x86\xff\x02^\x41rh"),
	one("crypto_LUKS", offsets{0}, "LUKS\xba\xbe"),
	one("crypto_LUKS", offsets{16 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib, 512 * kib, mib, 2 * mib, 4 * mib}, "SKUL\xba\xbe"),
	one("LVM1_member", offsets{0}, "HM"),
	one("DM_snapshot_cow", offsets{0}, "SnAp"),
	one("DM_verity_hash", offsets{0}, "verity\x00\x00"),
	one("DM_integrity", offsets{0}, "integrt\x00"),
	one("BitLocker", offsets{3}, "-FVE-FS-"),
	one("bcache", offsets{4*kib + 24}, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
	one("ceph_bluestore", offsets{0}, "bluestore block device"),
	one("drbdmanage_control_volume", offsets{0}, "$DRBDmgr=q"),
	one("drbdproxy_datalog", offsets{16}, "DRBDdlh*"),
	one("VMFS_volume_member", offsets{mib}, "\x0d\xd0\x01\xc0"),
	one("ubi", offsets{0}, "UBI#"),
	one("vdo", offsets{0}, "dmvdo001"),
	one("mpool", offsets{0}, "mpoolDev"),
	one("oracleasm", offsets{32}, "ORCLDISK"),

	// File systems.
	{"zfs_member", nil, both("\x00\x00\x00\x00\x00\xba\xb1\x0c"), uberblocks},
	one("ext2/ext3/ext4/jbd", offsets{kib + 56}, "\x53\xef"),
	one("xfs", offsets{0}, "XFSB"),
	{"xfs_external_log", nil, []string{"\xfe\xed\xba\xbe"}, logHeaders},
	one("btrfs", offsets{64*kib + 64, 64*kib<<10 + 64, 256*gib + 64}, "_BHRfS_M"),
	one("bcachefs", offsets{4*kib + 24, 2*mib + 24, -mib + 24}, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
	one("ntfs", offsets{3}, "NTFS    "),
	one("ReFS", offsets{3}, "ReFS"),
	one("exfat", offsets{3}, "EXFAT   "),
	one("f2fs", offsets{kib, 5 * kib}, "\x10\x20\xf5\xf2"),
	one("apfs", offsets{32}, "NXSB"),
	one("erofs", offsets{kib}, "\xe2\xe1\xf5\xe0"),
	one("zonefs", offsets{0}, "SFOZ"),
	one("exfs", offsets{0}, "EXFS"),
	{"nilfs2", offsets{kib + 6}, []string{"\x34\x34"}, nilfsCopy},
	one("vfat", offsets{0x52}, "MSWIN", "FAT32   "),
	one("vfat", offsets{0x36}, "MSDOS", "FAT16   ", "FAT12   ", "FAT     "),
	one("iso9660", offsets{32*kib + 1}, "CD001"),
	one("iso9660", offsets{32*kib + 9}, "CDROM"),
	one("udf", offsets{32*kib + 1, 34*kib + 1, 36*kib + 1}, "BEA01", "BOOT2", "CDW02", "NSR02", "NSR03", "TEA01"),
	one("squashfs", offsets{0}, "sqsh", "hsqs"),
	one("ufs", offsets{1372, 8*kib + 1372, 64*kib + 1372, 256*kib + 1372}, both("\x00\x01\x19\x54", "\x19\x54\x01\x19", "\x00\x19\x56\x12", "\x00\x09\x50\x14", "\x00\x61\x21\x95", "\x05\x23\x19\x94")...),
	one("minix", offsets{kib + 16}, both("\x13\x7f", "\x13\x8f", "\x24\x68", "\x24\x78")...),
	one("minix", offsets{kib + 24}, both("\x4d\x5a")...),
	one("reiserfs", offsets{8*kib + 20, 8*kib + 52, 64*kib + 20, 64*kib + 52}, "ReIsErFs", "ReIsEr2Fs", "ReIsEr3Fs"),
	one("hfsplus", offsets{kib}, "H+", "HX"),
	one("cramfs", offsets{0}, both("\x28\xcd\x3d\x45")...),
	one("ocfs2", offsets{kib, 2 * kib, 4 * kib, 8 * kib}, "OCFSV2"),
	one("sysv", offsets{1016, 9*kib + 1016, 15*kib + 1016, 18*kib + 1016}, both("\xfd\x18\x7e\x20")...),
	one("xenix", offsets{2 * kib}, "\x2b\x55\x44", "\x44\x55\x2b"),
	one("befs", offsets{32, 512 + 32}, both("BFS1")...),
	one("reiser4", offsets{64 * kib}, "ReIsEr4"),
	one("jfs", offsets{32 * kib}, "JFS1"),
	one("gfs/gfs2", offsets{64 * kib}, "\x01\x16\x19\x70"),
	one("hfs", offsets{kib}, "BD"),
	one("hpfs", offsets{8 * kib}, "\x49\xe8\x95\xf9"),
	one("romfs", offsets{0}, "-rom1fs-"),
	one("ocfs", offsets{8}, "OracleCFS"),
	one("vxfs", offsets{kib}, "\xf5\xfc\x01\xa5"),
	one("vxfs", offsets{8 * kib}, "\xa5\x01\xfc\xf5"),
	one("nss", offsets{4 * kib}, "SPB5"),
	one("ubifs", offsets{0}, "\x31\x18\x10\x06"),
	one("bfs", offsets{0}, "\xce\xfa\xad\x1b"),
	one("VMFS", offsets{2 * mib}, "\x5e\xf1\xab\x2f"),

	one("swap", swap, "SWAP-SPACE", "SWAPSPACE2"),
	one("swsuspend", swap, "S1SUSPEND", "S2SUSPEND", "ULSUSPEND", "LINHIB0001", "\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
}
