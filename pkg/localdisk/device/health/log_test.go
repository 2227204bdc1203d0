// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestKernelLog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		record string
		device string
		want   disk.Reason
	}{
		"ext4": {
			record: "4,9,1,-;EXT4-fs warning (device sdb1): ext4_end_bio:368: I/O error 10 writing to inode 12 starting block 9217)\n SUBSYSTEM=block\n",
			device: "sdb1", want: disk.WriteLost,
		},
		"delayed allocation": {
			record: "2,9,1,-;EXT4-fs (sdb1): Delayed block allocation failed for inode 12 at logical offset 0 with max blocks 1 with error 5\n",
			device: "sdb1", want: disk.WriteLost,
		},
		"XFS":                  {record: "4,9,1,-;XFS (dm-0): writeback error on inode 131, offset 0, sector 96\n", device: "dm-0", want: disk.WriteLost},
		"iomap":                {record: "4,9,1,-;nvme0n1p1: writeback error on inode 131, offset 0, sector 96\n", device: "nvme0n1p1", want: disk.WriteLost},
		"a page of a device":   {record: "3,9,1,-;Buffer I/O error on dev sdb, logical block 7, lost async page write\n", device: "sdb", want: disk.WriteLost},
		"a write":              {record: "3,9,1,-;I/O error, dev sdb, sector 56 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2\n", device: "sdb", want: disk.WriteLost},
		"a write, before 5.16": {record: "3,9,1,-;blk_update_request: I/O error, dev sdb, sector 56 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 0\n", device: "sdb", want: disk.WriteLost},
		"a bad sector":         {record: "3,9,1,c;critical medium error, dev sdb, sector 56 op 0x0:(READ) flags 0x0\n", device: "sdb", want: disk.DiskErrors},
		"a full thin device":   {record: "3,9,1,-;critical space allocation error, dev sdb, sector 56 op 0x1:(WRITE) flags 0xc800 phys_seg 1 prio class 2\n", device: "sdb", want: disk.WriteLost},
		"an error of a read":   {record: "3,9,1,-;I/O error, dev sdb, sector 56 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2\n", device: "sdb", want: disk.DiskErrors},
		"a discard":            {record: "3,9,1,-;I/O error, dev sdb, sector 56 op 0x3:(DISCARD) flags 0x0 phys_seg 1 prio class 2\n"},
		"a page that is read":  {record: "3,9,1,-;Buffer I/O error on dev sdb, logical block 7, async page read\n"},
		"a program's message":  {record: "11,9,1,-;XFS (dm-0): writeback error on inode 131, offset 0, sector 96\n"},
		"another message":      {record: "6,9,1,-;EXT4-fs (sdb1): mounted filesystem r/w with ordered data mode\n"},
		"nothing":              {record: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, ok := ofKernel(test.record)
			device, sign := "", disk.Sign{}
			if ok {
				device, sign, _ = parse(text)
			}
			if device != test.device || sign.Reason != test.want {
				t.Errorf("%q of %q, want %q of %q", sign.Reason, device, test.want, test.device)
			}
		})
	}
}
