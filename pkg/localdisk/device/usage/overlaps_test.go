// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOverlaps(t *testing.T) {
	cases := map[string]struct {
		node  func(w *fakeNode)
		place string
		want  []string
	}{
		"a disk alone": {place: "dev:8:16"},
		"a disk, with its partitions": {
			place: "dev:8:32", want: []string{"dev:8:33", "dev:8:34", "dev:8:35"},
		},
		"a partition, with its disk and not its neighbours": {
			place: "dev:8:33", want: []string{"dev:8:32"},
		},
		"a logical volume, with all that it is made of and made of it": {
			node: func(w *fakeNode) {
				w.holder("dm-0", "253:0", "sdb", "sdc1")
				w.holder("dm-1", "253:1", "sdc1")
				w.holder("dm-2", "253:2", "dm-0")
			},
			place: "dev:253:0", want: []string{"dev:253:2", "dev:8:16", "dev:8:32", "dev:8:33"},
		},
		"a device, with the loop device over it": {
			node:  func(w *fakeNode) { w.loop("loop0", "7:0", "/dev/sdb") },
			place: "dev:8:16", want: []string{"dev:7:0"},
		},
		"a device, with the mounts of it and of its parts": {
			node: func(w *fakeNode) {
				w.mount("8:33", "/", "/mnt/disks/b", "ext4 /dev/sdc1")
				w.mount("8:33", "/x", "/mnt/disks/c", "ext4 /dev/sdc1")
				w.mount("0:6", "/sdc2", "/mnt/node", "devtmpfs devtmpfs")
			},
			place: "dev:8:32", want: []string{"dev:8:33", "dev:8:34", "dev:8:35", "fs:8:33:/", "fs:8:33:/x"},
		},
		"a mount, with its device, the disk, and the folders above and in it": {
			node: func(w *fakeNode) {
				w.mount("8:33", "/", "/big", "ext4 /dev/sdc1")
				w.mount("8:33", "/a", "/mnt/disks/a", "ext4 /dev/sdc1")
				w.mount("8:33", "/a/b", "/mnt/disks/b", "ext4 /dev/sdc1")
				w.mount("8:33", "/c", "/mnt/disks/c", "ext4 /dev/sdc1")
			},
			place: "fs:8:33:/a", want: []string{"dev:8:32", "dev:8:33", "fs:8:33:/", "fs:8:33:/a/b"},
		},
		"btrfs, with all its devices": {
			node: func(w *fakeNode) {
				w.mount("0:44", "/", "/mnt/disks/a", "btrfs /dev/sdb")
				w.pool("6f-1", "sdb", "sdc3")
			},
			place: "fs:0:44:/", want: []string{"dev:8:16", "dev:8:32", "dev:8:35"},
		},
		"memory": {
			node:  func(w *fakeNode) { w.mount("0:44", "/", "/mnt/disks/a", "tmpfs none") },
			place: "fs:0:44:/",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newFakeNode(t)
			if c.node != nil {
				c.node(w)
			}
			got, err := w.survey().Overlaps(c.place)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, append([]string(nil), got...)); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverlapsWithoutPlace(t *testing.T) {
	s := newFakeNode(t).survey()
	for _, place := range []string{"", "dev:8", "dev:1:2", "dev:8:16:/", "fs:8:16", "fs:8:16:relative", "fs:-1:0:/", "dev:8:99999999999"} {
		if got, err := s.Overlaps(place); err == nil {
			t.Errorf("%q overlaps %v, want an error", place, got)
		}
	}
}

func TestOddDevices(t *testing.T) {
	w := newFakeNode(t)
	w.disk("cciss!c0d0", "104:0")
	w.mount("0:6", "/cciss/c0d0", "/mnt/node", "devtmpfs devtmpfs")
	w.swap("/dev/cciss/c0d0", "partition")
	w.folder("sys/devices/nvme0c0n1/slaves") // a path of a multipath device has no number
	w.link("sys/class/block/nvme0c0n1", "../../devices/nvme0c0n1")
	w.link("sys/class/block/sdz", "../../devices/gone") // pulled out meanwhile
	got, err := w.survey().BlockingUsers(deviceFact("104:0"), "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mount /mnt/node", "swap /dev/cciss/c0d0"}, words(got)); diff != "" {
		t.Errorf("claimed by (-want +got):\n%s", diff)
	}
}

func TestInvalidSysfs(t *testing.T) {
	cases := map[string]func(w *fakeNode){
		"a device number that is none": func(w *fakeNode) { w.file("sys/class/block/sdb/dev", "none\n") },
		"a partition of no disk": func(w *fakeNode) {
			w.file("sys/devices/lost/dev", "8:99\n")
			w.file("sys/devices/lost/partition", "1\n")
			w.link("sys/class/block/lost", "../../devices/lost")
		},
		"slaves that cannot be listed": func(w *fakeNode) { w.file("sys/devices/odd/slaves", ""); w.odd() },
		"pools that cannot be listed":  func(w *fakeNode) { w.file("sys/fs/btrfs", "") },
		"no devices at all": func(w *fakeNode) {
			if err := os.RemoveAll(filepath.Join(w.root, "sys/class/block")); err != nil {
				w.t.Fatal(err)
			}
			w.folder("sys/class/block")
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			w := newFakeNode(t)
			change(w)
			if _, err := w.finder().Survey(nil, nil); err == nil {
				t.Error("surveyed without an error")
			}
		})
	}
}

// odd lists the device of that name.
func (w *fakeNode) odd() {
	w.file("sys/devices/odd/dev", "8:99\n")
	w.link("sys/class/block/odd", "../../devices/odd")
}

func TestDeviceCycles(t *testing.T) {
	w := newFakeNode(t)
	w.holder("dm-0", "253:0", "sdb")
	w.link("sys/devices/pci/block/sdb/slaves/dm-0", "../../dm-0")
	got, err := w.survey().Overlaps("dev:8:16")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"dev:253:0"}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func FuzzPlace(f *testing.F) {
	f.Add("dev:8:16")
	f.Add("fs:8:16:/a:b")
	f.Fuzz(func(t *testing.T, place string) {
		n, root, err := parsePlace(place)
		if err != nil {
			return
		}
		again := n.place()
		if root != "" {
			again = "fs:" + n.String() + ":" + root
		}
		m, r, err := parsePlace(again)
		if err != nil || m != n || r != root {
			t.Errorf("%q is read as %v %q, and that again as %v %q, %v", place, n, root, m, r, err)
		}
	})
}
