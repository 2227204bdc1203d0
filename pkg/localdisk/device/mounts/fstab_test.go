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
		want []string
	}{
		"an entry": {
			"UUID=1-2 /mnt/disks/a ext4 defaults 0 2\n",
			[]string{"/mnt/disks/a"},
		},
		"an entry with noauto": {
			"/dev/sdb /mnt/disks/a xfs rw,noauto,nofail",
			[]string{"/mnt/disks/a"},
		},
		"an entry without options": {
			"/dev/sdb /mnt/disks/a xfs",
			[]string{"/mnt/disks/a"},
		},
		"spaces, tabs and octal escapes": {
			"\t/dev/sdb\t \t/mnt/a\\040b\\011c\\134d/   xfs\tdefaults",
			[]string{"/mnt/a b\tc\\d"},
		},
		"invalid escapes": {
			`/dev/sdb /mnt/a\0b\999\4000\04 xfs`,
			[]string{`/mnt/a\0b\999\4000\04`},
		},
		"comments, empty lines, swap and nonsense between entries": {
			"# /dev/sda / ext4\n\n#/dev/sda /x ext4\n/dev/sdc none swap sw\nnonsense\n/dev/sdd relative ext4\n/dev/sdb / xfs\n",
			[]string{"/"},
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
	want := []string{"/dev/sdb2", "/mnt/disks/a b/swap (deleted)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("swaps (-want +got):\n%s", diff)
	}
}

func TestUnreadableFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	if got, err := Fstab(missing); got != nil || err != nil {
		t.Errorf("a missing fstab returns %v, %v; want nothing", got, err)
	}
	if got, err := Swaps(missing); got != nil || err != nil {
		t.Errorf("a kernel without swap returns %v, %v; want nothing", got, err)
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
