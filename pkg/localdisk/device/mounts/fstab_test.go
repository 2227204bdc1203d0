// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFstab(t *testing.T) {
	cases := map[string]struct {
		text string
		want []FstabEntry
	}{
		"an entry": {
			"UUID=1-2 /mnt/disks/a ext4 defaults 0 2\n",
			[]FstabEntry{{Source: "UUID=1-2", Point: "/mnt/disks/a", FSType: "ext4"}},
		},
		"an entry that is mounted only when asked for": {
			"/dev/sdb /mnt/disks/a xfs rw,noauto,nofail",
			[]FstabEntry{{Source: "/dev/sdb", Point: "/mnt/disks/a", FSType: "xfs", NoAuto: true}},
		},
		"noauto only as a whole word": {
			"/dev/sdb /mnt/disks/a xfs x-noauto",
			[]FstabEntry{{Source: "/dev/sdb", Point: "/mnt/disks/a", FSType: "xfs"}},
		},
		"an entry without options": {
			"/dev/sdb /mnt/disks/a xfs",
			[]FstabEntry{{Source: "/dev/sdb", Point: "/mnt/disks/a", FSType: "xfs"}},
		},
		"spaces, tabs and octal escapes": {
			"\t/dev/sdb\t \t/mnt/a\\040b\\011c\\134d/   xfs\tdefaults",
			[]FstabEntry{{Source: "/dev/sdb", Point: "/mnt/a b\tc\\d", FSType: "xfs"}},
		},
		"what looks like an escape and is none": {
			`/dev/sdb /mnt/a\0b\999\4000\04 xfs`,
			[]FstabEntry{{Source: "/dev/sdb", Point: `/mnt/a\0b\999\4000\04`, FSType: "xfs"}},
		},
		"comments, empty lines, swap and nonsense between entries": {
			"# /dev/sda / ext4\n\n#/dev/sda /x ext4\n/dev/sdc none swap sw\nnonsense\n/dev/sdd relative ext4\n/dev/sdb / xfs\n",
			[]FstabEntry{{Source: "/dev/sdb", Point: "/", FSType: "xfs"}},
		},
		"nothing": {"", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Fstab(write(t, c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSwaps(t *testing.T) {
	file := write(t, `Filename				Type		Size		Used		Priority
/dev/sdb2                               partition	1048572		0		-2
/mnt/disks/a\040b/swap\040(deleted)      file		8188		0		-3
`)
	got, err := Swaps(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []Swap{{Path: "/dev/sdb2"}, {Path: "/mnt/disks/a b/swap (deleted)", File: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("swaps (-want +got):\n%s", diff)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	if got, err := Fstab(missing); got != nil || err != nil {
		t.Errorf("an fstab that is not there says %v, %v; want nothing", got, err)
	}
	if got, err := Swaps(missing); got != nil || err != nil {
		t.Errorf("a kernel without swap says %v, %v; want nothing", got, err)
	}
	folder := t.TempDir()
	if _, err := Fstab(folder); err == nil {
		t.Error("no error for an fstab that is a folder")
	}
	if _, err := Swaps(folder); err == nil {
		t.Error("no error for swaps in a folder")
	}
}

func FuzzUnescape(f *testing.F) {
	f.Add(`a\040b`)
	f.Add(`\`)
	f.Fuzz(func(t *testing.T, s string) {
		if got := unescape(s); len(got) > len(s) {
			t.Errorf("%q became %q, which is longer", s, got)
		}
	})
}
