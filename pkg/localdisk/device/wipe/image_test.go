// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// sparse is a device's content in memory: zeros except for what was put there.
type sparse struct {
	size int64
	put  map[int64]string
	fail int64 // reads that touch this byte fail; 0 is none
}

func (s sparse) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 || at%pageSize != 0 || at+int64(len(p)) > s.size {
		return 0, errors.New("not as a device wants it")
	}
	if s.fail > 0 && at <= s.fail && s.fail < at+int64(len(p)) {
		return 0, io.ErrClosedPipe
	}
	clear(p)
	for o, data := range s.put {
		for i := range len(data) {
			if j := o + int64(i) - at; j >= 0 && j < int64(len(p)) {
				p[j] = data[i]
			}
		}
	}
	return len(p), nil
}

// places returns where a signature can be on a device of this size.
func (s signature) places(size int64) []int64 {
	all := append([]int64(nil), s.at...)
	end := size &^ 511
	if s.where != nil {
		all = append(all, s.where(end)...)
	}
	var in []int64
	for _, o := range all {
		if o < 0 {
			o += end
		}
		if o >= 0 && o+int64(len(s.magic)) <= size {
			in = append(in, o)
		}
	}
	return in
}

func TestEverySignatureIsFound(t *testing.T) {
	for _, size := range []int64{300 * gib, 40*mib + 3*512, 40*mib + 5*4096} {
		for _, s := range signatures() {
			for i, at := range s.places(size) {
				if i%11 > 0 && s.where != nil {
					continue // they are hundreds, all alike
				}
				got, err := s.find(newImage(sparse{size: size, put: map[int64]string{at: s.magic}}, size))
				if err != nil || got != at {
					t.Fatalf("%s at %d of %d: find returns %d, %v", s.name, at, size, got, err)
				}
			}
			if size == 300*gib && s.where == nil && len(s.places(size)) != len(s.at) {
				t.Errorf("%s has places beyond 300 GiB", s.name)
			}
		}
	}
}

// fs-reset must remove everything that Inspect can find.
func TestEverySignatureIsZeroed(t *testing.T) {
	check := func(size int64) {
		cleared := superblocks(size)
		for _, s := range signatures() {
			for _, at := range s.places(size) {
				in := false
				for _, c := range cleared {
					in = in || c.from <= at && at+int64(len(s.magic)) <= c.to
				}
				if !in {
					t.Fatalf("%s at %d of %d is outside %v", s.name, at, size, cleared)
				}
			}
		}
	}
	for _, base := range []int64{512, mib, 8 * mib, 16 * mib, 64 * mib, 65 * mib, gib, 256 * gib, 1024 * gib, 5000 * gib, 1 << 60} {
		for _, more := range []int64{-512, 0, 512, 4096, mib + 512, 9 * mib} {
			if base+more > 0 {
				check(base + more)
			}
		}
	}
}

func TestSuperblocks(t *testing.T) {
	for _, size := range []int64{512, 4096, ends, 2 * ends, 2*ends + 512, 64*mib + 512, gib, 300 * gib, 20000 * gib} {
		var end, sum int64
		end = -1
		for _, s := range superblocks(size) {
			if s.from <= end || s.to <= s.from || s.to > size || s.from%512 != 0 || s.to%512 != 0 {
				t.Errorf("size %d: %v", size, superblocks(size))
			}
			end = s.to
			sum += s.to - s.from
		}
		if sum > 32*mib {
			t.Errorf("size %d: %d bytes are zeroed", size, sum)
		}
	}
}

func TestInspectImage(t *testing.T) {
	const size = 40 * mib
	tests := map[string]struct {
		put  map[int64]string
		size int64
		mode disk.Mode
		want string
	}{
		"zeros are blank":                                    {size: size, mode: disk.Block},
		"one sector of zeros is blank":                       {size: 512, mode: disk.Block},
		"one sector with its last bit set is not":            {size: 512, put: map[int64]string{511: "\x01"}, mode: disk.Block, want: "data at byte 511"},
		"bytes without a meaning, for a file system":         {size: size, put: map[int64]string{5000: "x"}, mode: disk.Filesystem},
		"the same, for raw blocks":                           {size: size, put: map[int64]string{5000: "x"}, mode: disk.Block, want: "data at byte 5000"},
		"the last byte, for raw blocks":                      {size: size, put: map[int64]string{size - 1: "x"}, mode: disk.Block, want: "data at byte 41943039"},
		"the last byte of the first MiB":                     {size: size, put: map[int64]string{mib - 1: "x"}, mode: disk.Block, want: "data at byte 1048575"},
		"in the middle, which is not read":                   {size: size, put: map[int64]string{20 * mib: "x"}, mode: disk.Block},
		"a format is named with its place":                   {size: size, put: map[int64]string{0: "XFSB"}, mode: disk.Filesystem, want: "xfs at byte 0"},
		"two formats are both named":                         {size: size, put: map[int64]string{0: "LUKS\xba\xbe", 512: "EFI PART"}, mode: disk.Block, want: "gpt at byte 512, crypto_LUKS at byte 0"},
		"a magic that is cut off by the end is none":         {size: 512, put: map[int64]string{508: "\xda"}, mode: disk.Filesystem},
		"five formats are named, and no more":                {size: size, put: map[int64]string{0: "XFSB", 510: "\x55\xaa", 512: "EFI PART", 32: "NXSB", 4120: "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", 65600: "_BHRfS_M"}, mode: disk.Filesystem, want: "gpt at byte 512, dos at byte 510, bcache at byte 4120, xfs at byte 0, btrfs at byte 65600"},
		"swap of a machine with pages of 64 KiB":             {size: size, put: map[int64]string{65526: "SWAPSPACE2"}, mode: disk.Filesystem, want: "swap at byte 65526"},
		"ZFS whose labels at the start were overwritten":     {size: size, put: map[int64]string{size - 128*kib: "\x0c\xb1\xba\x00\x00\x00\x00\x00"}, mode: disk.Filesystem, want: "zfs_member at byte 41811968"},
		"the backup of a partition table that was cut off":   {size: size, put: map[int64]string{size - 512: "EFI PART"}, mode: disk.Filesystem, want: "gpt at byte 41942528"},
		"Linux RAID whose superblock is at the end":          {size: size, put: map[int64]string{size - 8*kib: "\xfc\x4e\x2b\xa9"}, mode: disk.Filesystem, want: "linux_raid_member at byte 41934848"},
		"the second header of a LUKS2 that lost its first":   {size: size, put: map[int64]string{4 * mib: "SKUL\xba\xbe"}, mode: disk.Filesystem, want: "crypto_LUKS at byte 4194304"},
		"the second superblock of a NILFS without its first": {size: size, put: map[int64]string{size - 4096 + 6: "\x34\x34"}, mode: disk.Filesystem, want: "nilfs2 at byte 41938950"},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := inspect(newImage(sparse{size: s.size, put: s.put}, s.size), s.mode)
			if err != nil {
				t.Fatal(err)
			}
			if got != s.want {
				t.Errorf("inspect = %q, want %q", got, s.want)
			}
		})
	}
}

func TestInspectReadError(t *testing.T) {
	for name, at := range map[string]int64{"at the start": 1, "at the end": 40*mib - 1} {
		t.Run(name, func(t *testing.T) {
			_, err := inspect(newImage(sparse{size: 40 * mib, fail: at}, 40*mib), disk.Filesystem)
			if !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := inspect(newImage(strings.NewReader("short"), mib), disk.Filesystem); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a device that ends early: error %v", err)
	}
}

// TestFirstSetCachesNothing: the ends of a device are MiBs, and several are read at a time.
func TestFirstSetCachesNothing(t *testing.T) {
	m := newImage(sparse{size: 4 * mib, put: map[int64]string{3*mib + 5: "x"}}, 4*mib)
	for s, want := range map[stretch]int64{{0, mib}: -1, {mib + 7, 3 * mib}: -1, {0, 4 * mib}: 3*mib + 5, {3*mib + 6, 4 * mib}: -1} {
		if got, err := m.firstSet(s); got != want || err != nil {
			t.Errorf("%v: %d, %v, want %d", s, got, err, want)
		}
	}
	if len(m.blocks) > 0 {
		t.Errorf("%d blocks are cached", len(m.blocks))
	}
}

func FuzzInspect(f *testing.F) {
	for _, s := range signatures() {
		if len(s.at) > 0 && s.at[0] >= 0 && s.at[0] < 8*kib {
			f.Add(append(make([]byte, s.at[0]), s.magic...), uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, pad uint8) {
		size := int64(len(data)) + int64(pad)*511
		content := append(bytes.Clone(data), make([]byte, size-int64(len(data)))...)
		want := bytes.Clone(content)
		for _, mode := range []disk.Mode{disk.Filesystem, disk.Block} {
			what, err := inspect(newImage(bytes.NewReader(content), size), mode)
			if err != nil {
				t.Fatalf("%v: %v", mode, err)
			}
			if mode == disk.Block && what == "" && size <= mib && firstSet(content) >= 0 {
				t.Fatalf("set bytes count as blank")
			}
		}
		if !bytes.Equal(content, want) {
			t.Fatal("the content was changed")
		}
	})
}

func FuzzParseSecurity(f *testing.F) {
	f.Add([]byte("Security: \n\t\tsupported\n\tnot\tfrozen\n"))
	f.Fuzz(func(_ *testing.T, out []byte) { parseSecurity(out) })
}
