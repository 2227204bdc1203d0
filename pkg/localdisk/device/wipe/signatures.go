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
		holds, err := m.holds(s.magic, o)
		if err != nil {
			return 0, err
		}
		if holds {
			return o, nil
		}
	}
	return -1, nil
}

func signatures() []signature {
	return slices.Concat(partitionTables(), raids(), containers(), filesystems(), oldFilesystems(), swaps())
}

// each returns a signature of a format for each of its magics.
func each(name string, magics []string, at ...int64) []signature {
	var all []signature
	for _, m := range magics {
		all = append(all, signature{name: name, magic: m, at: at})
	}
	return all
}

func one(name, magic string, at ...int64) signature {
	return signature{name: name, magic: magic, at: at}
}

// both returns a magic number in both byte orders.
func both(magic string) []string {
	swapped := []byte(magic)
	slices.Reverse(swapped)
	return []string{magic, string(swapped)}
}

func partitionTables() []signature {
	return slices.Concat(
		[]signature{
			one("gpt", "EFI PART", 512, 4096, -512, -4096),
			one("dos", "\x55\xaa", 510),
			one("mac", "PM\x00\x00", 512, 1024, 2048),
			one("sun", "\xda\xbe", 508),
			one("solaris", "\xee\xde\x0d\x60", 524),
			one("aix", "\xc9\xc2\xd4\xc1", 0),
			one("ultrix", "\x57\x29\x03\x00", 16*kib-72),
			one("unixware", "\x0d\x60\x5e\xca", 29*512+4),
		},
		each("bsd", []string{"\x57\x45\x56\x82"}, 0, 64, 128, 512),
		each("sgi", []string{"\x0b\xe5\xa9\x41"}, 0),
	)
}

func raids() []signature {
	promise := []int64{63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087}
	for i := range promise {
		promise[i] *= -512
	}
	md := each("linux_raid_member", both("\xa9\x2b\x4e\xfc"), 0, 4*kib)
	for i := range md {
		md[i].where = mdAtEnd
	}
	return slices.Concat(
		md,
		each("ddf_raid_member", both("\xde\x11\xde\x11"), -0x200, -0x20200),
		each("hpt45x_raid_member", []string{"\xf3\x16\x78\x5a", "\xfd\x16\x78\x5a"}, -11*512),
		each("hpt37x_raid_member", []string{"\xf0\x16\x78\x5a", "\xfd\x16\x78\x5a"}, 9*512+32),
		[]signature{
			one("isw_raid_member", "Intel Raid ISM Cfg Sig. ", -1024, -8192),
			one("lsi_mega_raid_member", "$XIDE$", -512),
			one("via_raid_member", "\x55\xaa", -512),
			one("silicon_medley_raid_member", "\x00\x00\x00\x2f", -512+0x60),
			one("nvidia_raid_member", "NVIDIA", -1024),
			one("promise_fasttrack_raid_member", "Promise Technology, Inc.", promise...),
			one("adaptec_raid_member", "\x37\xfc\x4d\x1e", -512),
			one("jmicron_raid_member", "JM", -512),
		},
	)
}

// mdAtEnd is where Linux RAID keeps superblocks of version 0.90, in the last but one
// 64 KiB that are whole, and of version 1.0, 8 KiB before the end, at 4 KiB.
func mdAtEnd(size int64) []int64 {
	return []int64{size&^(64*kib-1) - 64*kib, (size - 8*kib) &^ (4*kib - 1)}
}

// containers hold other formats: volume managers, encryption, caches, replication.
func containers() []signature {
	return slices.Concat(
		each("LVM2_member", []string{"LVM2 001"}, 24, 512+24, 1024+24, 1536+24),
		each("LVM2_member", []string{"LABELONE"}, 0, 512, 1024, 1536),
		each("drbd", []string{"\x83\x74\x02\x6b", "\x83\x74\x02\x6c", "\x83\x74\x02\x6d"}, -4096+60),
		each("stratis", []string{"!Stra0tis\x86\xff\x02^\x41rh"}, 512+4, 9*512+4),
		[]signature{
			one("crypto_LUKS", "LUKS\xba\xbe", 0),
			one("crypto_LUKS", "SKUL\xba\xbe", 16*kib, 32*kib, 64*kib, 128*kib, 256*kib, 512*kib, mib, 2*mib, 4*mib),
			one("LVM1_member", "HM", 0),
			one("DM_snapshot_cow", "SnAp", 0),
			one("DM_verity_hash", "verity\x00\x00", 0),
			one("DM_integrity", "integrt\x00", 0),
			one("BitLocker", "-FVE-FS-", 3),
			one("bcache", "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", 4*kib+24),
			one("ceph_bluestore", "bluestore block device", 0),
			one("drbdmanage_control_volume", "$DRBDmgr=q", 0),
			one("drbdproxy_datalog", "DRBDdlh*", 16),
			one("VMFS_volume_member", "\x0d\xd0\x01\xc0", mib),
			one("ubi", "UBI#", 0),
			one("vdo", "dmvdo001", 0),
			one("mpool", "mpoolDev", 0),
			one("oracleasm", "ORCLDISK", 32),
		},
	)
}

// swaps are known for pages of 4 to 64 KiB.
func swaps() []signature {
	pages := []int64{4*kib - 10, 8*kib - 10, 16*kib - 10, 32*kib - 10, 64*kib - 10}
	return slices.Concat(
		each("swap", []string{"SWAP-SPACE", "SWAPSPACE2"}, pages...),
		each("swsuspend", []string{"S1SUSPEND", "S2SUSPEND", "ULSUSPEND", "LINHIB0001", "\xed\xc3\x02\xe9\x98\x56\xe5\x0c"}, pages...),
	)
}
