// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a node made of files: a tree as sysfs has it, and a mountinfo. It begins
// with a root disk sda, whose partition sda1 is mounted at / and sda2 at /boot, a
// disk sdb with nothing on it, and a disk sdc with three partitions.
type fakeNode struct {
	t     *testing.T
	root  string
	lines []string
	swaps []string
}

func newFakeNode(t *testing.T) *fakeNode {
	w := &fakeNode{t: t, root: t.TempDir()}
	w.folder("kubelet/pods")
	w.disk("sda", "8:0", "8:1", "8:2")
	w.disk("sdb", "8:16")
	w.disk("sdc", "8:32", "8:33", "8:34", "8:35")
	w.mount("8:1", "/", "/", "ext4 /dev/sda1")
	w.mount("8:2", "/", "/boot", "ext4 /dev/sda2")
	w.mount("0:6", "/", "/dev", "devtmpfs devtmpfs")
	return w
}

func (w *fakeNode) folder(p string) string {
	w.t.Helper()
	p = filepath.Join(w.root, p)
	if err := os.MkdirAll(p, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *fakeNode) file(p, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.folder(filepath.Dir(p)), filepath.Base(p)), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fakeNode) link(p, target string) {
	w.t.Helper()
	if err := os.Symlink(target, filepath.Join(w.folder(filepath.Dir(p)), filepath.Base(p))); err != nil {
		w.t.Fatal(err)
	}
}

// disk adds a disk, with a partition for each further number.
func (w *fakeNode) disk(name, number string, partitions ...string) {
	home := "sys/devices/pci/block/" + name
	w.file(home+"/dev", number+"\n")
	w.folder(home + "/holders")
	w.folder(home + "/slaves")
	w.link("sys/class/block/"+name, "../../devices/pci/block/"+name)
	for i, n := range partitions {
		part := fmt.Sprintf("%s%d", name, i+1)
		w.file(home+"/"+part+"/dev", n+"\n")
		w.file(home+"/"+part+"/partition", fmt.Sprintf("%d\n", i+1))
		w.folder(home + "/" + part + "/holders")
		w.link("sys/class/block/"+part, "../../devices/pci/block/"+name+"/"+part)
	}
}

// holder adds a device-mapper or md device over others.
func (w *fakeNode) holder(name, number string, slaves ...string) {
	w.disk(name, number)
	w.file("sys/devices/pci/block/"+name+"/dm/name", "mapped-"+name+"\n")
	for _, s := range slaves {
		w.link("sys/devices/pci/block/"+name+"/slaves/"+s, "../../"+s)
	}
}

// loop adds a loop device attached to a path.
func (w *fakeNode) loop(name, number, backing string) {
	w.disk(name, number)
	w.file("sys/devices/pci/block/"+name+"/loop/backing_file", backing+"\n")
}

// pool adds a mounted file system of several devices.
func (w *fakeNode) pool(uuid string, members ...string) {
	w.folder("sys/fs/btrfs/features")
	for _, m := range members {
		w.link("sys/fs/btrfs/"+uuid+"/devices/"+m, "../../../../devices/pci/block/"+m)
	}
}

// mount adds a mount; what is its type and source.
func (w *fakeNode) mount(number, root, point, what string) {
	id, parent := 20+len(w.lines), 20
	if len(w.lines) == 0 {
		parent = 1
	}
	esc := strings.NewReplacer(" ", `\040`).Replace
	w.lines = append(w.lines, fmt.Sprintf("%d %d %s %s %s rw - %s rw", id, parent, number, esc(root), esc(point), what))
}

func (w *fakeNode) swap(path, kind string) {
	w.swaps = append(w.swaps, path+" "+kind+" 1024 0 -2")
}

// finder writes what was added to files.
func (w *fakeNode) finder() *Finder {
	w.t.Helper()
	w.file("mountinfo", strings.Join(w.lines, "\n")+"\n")
	w.file("swaps", "Filename Type Size Used Priority\n"+strings.Join(w.swaps, "\n")+"\n")
	l, err := New(Config{
		Mountinfo: w.root + "/mountinfo", Swaps: w.root + "/swaps", Sys: w.root + "/sys", Dev: w.root + "/dev",
		KubeletDir: "/var/lib/kubelet", KubeletPath: w.root + "/kubelet",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *fakeNode) survey() *Survey {
	w.t.Helper()
	s, err := w.finder().Survey(nil, []string{"/mnt/disks"})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// deviceFact and mountFact make facts at the slot "a".
func deviceFact(number string) disk.Fact {
	return disk.Fact{HostPath: "/mnt/disks/a", Kind: disk.Device, Place: "dev:" + number}
}

func mountFact(number, root string) disk.Fact {
	return disk.Fact{HostPath: "/mnt/disks/a", Kind: disk.Mount, Place: "fs:" + number + ":" + root}
}

func words(us []disk.User) []string {
	var out []string
	for _, u := range us {
		out = append(out, u.String())
	}
	return out
}
