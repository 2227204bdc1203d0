// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"cmp"
	"slices"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// What fs-reset zeroes at both ends. The furthest superblocks in are: from the
// start, the second LUKS2 header (4 MiB); from the end, Promise's RAID (1.5 MiB) and
// what bcachefs and LVM2 copy there (some MiB).
const ends = 8 * mib

// stretch is bytes of a device.
type stretch struct{ from, to int64 }

// superblocks returns where known formats keep superblocks and copies of them on a
// device, in order and without overlaps. Sizes and results are in bytes, and
// multiples of the sector if the size is one.
func superblocks(size int64) []stretch {
	all := []stretch{{0, ends}, {size - ends, size}}
	// The copies of btrfs: 16 KiB, times 4096 for each.
	for at := 64 * mib; at < size && at <= 256*gib; at <<= 12 {
		all = append(all, stretch{at, at + mib})
	}
	// The copies of OCFS2: 1 GiB, times 4 for each, six at most.
	for at := gib; at < size && at <= 1024*gib; at <<= 2 {
		all = append(all, stretch{at, at + mib})
	}
	return merge(all, size)
}

func merge(all []stretch, size int64) []stretch {
	for i := range all {
		all[i].from = min(max(all[i].from, 0), size)
		all[i].to = min(max(all[i].to, 0), size)
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	var merged []stretch
	for _, s := range all {
		last := len(merged) - 1
		switch {
		case s.from == s.to:
		case last >= 0 && s.from <= merged[last].to:
			merged[last].to = max(merged[last].to, s.to)
		default:
			merged = append(merged, s)
		}
	}
	return merged
}
