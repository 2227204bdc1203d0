// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	globalMount = "kubelet/plugins/kubernetes.io/local-volume/mounts/pv-1"
	podMount    = "kubelet/pods/1/volumes/kubernetes.io~local-volume/pv-1"
	podDevice   = "kubelet/pods/1/volumeDevices/kubernetes.io~local-volume/pv-1"
	nodes       = "kubelet/plugins/kubernetes.io~local-volume/volumeDevices/pv-1"
)

// userTest makes a disk and something that uses it. users are those that a clean must find,
// claims those that prevent the disk from being offered (with pv-1 as its volume).
type userTest func(t *testing.T, b *bench) (fact disk.Fact, users, claims []string)

func (test userTest) check(t *testing.T) {
	b := newBench(t)
	fact, users, claims := test(t, b)
	if diff := cmp.Diff(users, b.users(fact, "pv-1")); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(claims, b.claims(fact, "pv-1")); diff != "" {
		t.Errorf("claimed by (-want +got):\n%s", diff)
	}
}

func TestUsersOfADevice(t *testing.T) {
	cases := map[string]userTest{
		"nothing": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			return b.device(b.disk("a", 64)), nil, nil
		},
		"a mount": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			b.mkfs(dev, "srv")
			return b.device(dev), []string{"mount ~/srv"}, []string{"mount ~/srv"}
		},
		"kubelet, which has mounted it for a pod": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			global := b.mkfs(dev, globalMount)
			b.mount("--bind", global, podMount)
			return b.device(dev), []string{
				"kubelet ~/" + globalMount, "kubelet ~/" + podMount, "mount ~/" + globalMount, "mount ~/" + podMount,
			}, nil
		},
		"kubelet, which has attached it to a pod as a raw device": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			node := nodes + "/uid"
			b.bindNode(dev, node)
			lo := b.attach(filepath.Join(b.root, node))
			b.link(dev, podDevice)
			return b.device(dev), []string{
				"kubelet ~/" + nodes, "kubelet ~/" + podDevice, "loop device " + lo, "mount ~/" + node,
			}, nil
		},
		"a loop device": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			lo := b.attach(dev)
			return b.device(dev), []string{"loop device " + lo}, []string{"loop device " + lo}
		},
		"a loop device over a node of another name, which sysfs does not show": func(t *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			node := filepath.Join(b.root, "node")
			if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(b.stat(dev).Rdev)); err != nil {
				t.Fatal(err)
			}
			lo := b.attach(node)
			return b.device(dev), []string{"loop device " + lo}, nil
		},
		"swap": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			b.swapOn(dev)
			return b.device(dev), []string{"swap " + dev}, []string{"swap " + dev}
		},
		"a process that has it exclusively": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			b.hold(dev)
			return b.device(dev), []string{exclusive(dev)}, nil
		},
		"a file system that no mountinfo shows": func(t *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			b.run("mkfs.ext4", "-q", "-O", "^has_journal", dev)
			point := b.folder("srv")
			b.run("mount", dev, point)
			f, err := os.Open(point)
			b.run("umount", "--lazy", point)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			return b.device(dev), []string{exclusive(dev)}, nil
		},
		"nothing: its node is mounted on the entry": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			b.bindNode(dev, "disks/a")
			fact := b.device(dev)
			fact.HostPath = filepath.Join(b.root, "disks/a")
			return fact, nil, nil
		},
		"another mount of its node beside the entry": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			b.bindNode(dev, "srv")
			return b.device(dev), []string{"mount ~/srv"}, []string{"mount ~/srv"}
		},
		"device mapper": func(t *testing.T, b *bench) (disk.Fact, []string, []string) {
			if _, err := os.Stat("/sys/devices/virtual/misc/device-mapper"); err != nil {
				t.Skip("this kernel has no device mapper")
			}
			dev := b.disk("a", 64)
			name := "stowage-" + filepath.Base(dev)
			b.run("dmsetup", "create", name, "--table", "0 2048 linear "+dev+" 0")
			b.undo("dmsetup", "remove", name)
			dm, err := os.ReadDir("/sys/class/block/" + filepath.Base(dev) + "/holders")
			if err != nil || len(dm) != 1 {
				t.Fatalf("holders are %v, %v", dm, err)
			}
			holder := "holder /dev/" + dm[0].Name()
			return b.device(dev), []string{holder}, []string{holder}
		},
		"btrfs, which names another of its devices": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			first, second := b.disk("a", 128), b.disk("b", 128)
			b.run("mkfs.btrfs", "-q", "-d", "single", "-m", "single", first, second)
			b.run("btrfs", "device", "scan", first, second)
			b.mount("-t", "btrfs", first, "srv")
			return b.device(second), []string{"mount ~/srv"}, []string{"mount ~/srv"}
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}

// exclusive is the use of a device that only an exclusive open shows.
func exclusive(dev string) string {
	return disk.User{What: disk.ExclusiveOpen, Where: dev}.String()
}

func TestUsersOfAPartOrTheWhole(t *testing.T) {
	cases := map[string]userTest{
		"a disk, by a mount of its partition": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			first, _ := b.partitions(dev)
			b.mkfs(first, "srv")
			return b.device(dev), []string{"mount ~/srv"}, []string{"mount ~/srv"}
		},
		"a disk, by a loop device over its partition": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			_, second := b.partitions(dev)
			lo := b.attach(second)
			return b.device(dev), []string{"loop device " + lo}, []string{"loop device " + lo}
		},
		"a partition, by a loop device over the disk": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			first, _ := b.partitions(dev)
			lo := b.attach(dev)
			return b.device(first), []string{"loop device " + lo}, []string{"loop device " + lo}
		},
		"a disk, by a process that has a partition exclusively": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			first, _ := b.partitions(dev)
			b.hold(first)
			return b.device(dev), []string{exclusive(dev)}, nil
		},
		"a partition, by a process that has the disk exclusively": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			first, _ := b.partitions(dev)
			b.hold(dev)
			return b.device(first), []string{exclusive(first)}, nil
		},
		"a partition is idle beside one that is held exclusively": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			first, second := b.partitions(b.disk("a", 64))
			b.hold(first)
			return b.device(second), nil, nil
		},
		"a partition is idle beside one that the host has mounted, and claimed": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			first, second := b.partitions(b.disk("a", 64))
			b.mkfs(first, "srv")
			return b.device(second), nil, []string{"mount ~/srv"}
		},
		"a partition is idle and free beside one that is another volume": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			first, second := b.partitions(b.disk("a", 64))
			b.mkfs(first, "disks/b")
			return b.device(second), nil, nil
		},
		"a partition is idle beside swap, and claimed": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			first, second := b.partitions(b.disk("a", 64))
			b.swapOn(first)
			return b.device(second), nil, []string{"swap " + first}
		},
		"a partition is idle beside a raw device that kubelet gives to a pod, and free": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			first, second := b.partitions(b.disk("a", 64))
			node := strings.ReplaceAll(nodes, "pv-1", "pv-2") + "/uid"
			b.bindNode(first, node)
			b.attach(filepath.Join(b.root, node))
			return b.device(second), nil, nil
		},
		"a loop device is not used by what it is attached to": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			return b.device(b.attach(b.disk("a", 64))), nil, nil
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}

func (b *bench) swapOn(dev string) {
	b.t.Helper()
	b.run("mkswap", dev)
	b.run("swapon", dev)
	b.undo("swapoff", dev)
}

// hold opens a device exclusively until the test ends.
func (b *bench) hold(dev string) {
	b.t.Helper()
	fd, err := unix.Open(dev, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = unix.Close(fd) })
}

// bindNode mounts a device's node on a file, as kubelet does.
func (b *bench) bindNode(dev, file string) {
	b.t.Helper()
	b.folder(filepath.Dir(file))
	file = b.image(file, 0)
	b.run("mount", "--bind", dev, file)
	b.undo("umount", "--lazy", file)
}

func (b *bench) link(target, p string) {
	b.t.Helper()
	b.folder(filepath.Dir(p))
	if err := os.Symlink(target, filepath.Join(b.root, p)); err != nil {
		b.t.Fatal(err)
	}
}

// TestReaches: the loop device itself reports what it is attached to. Its path in sysfs is
// unknown.
func TestReaches(t *testing.T) {
	w := newFakeNode(t)
	w.mount("8:33", "/", "/mnt/disks/b", "ext4 /dev/sdc1")
	w.mount("0:44", "/", "/mnt/disks/c", "btrfs /dev/sdb")
	w.loop("loop0", "7:0", "/nowhere")
	s := w.survey()
	for name, test := range map[string]struct {
		place        string
		device, file number
		want         bool
	}{
		"a file of the file system":        {"fs:8:33:/", number{}, number{8, 33}, true},
		"a file of another":                {"fs:8:33:/", number{}, number{8, 1}, false},
		"the file system's device":         {"fs:8:33:/", number{8, 33}, number{}, true},
		"the device":                       {"dev:8:33", number{8, 33}, number{}, true},
		"another device":                   {"dev:8:33", number{8, 16}, number{}, false},
		"detached: not of the file system": {"fs:8:33:/", number{}, number{}, false},
		"detached: not of btrfs":           {"fs:0:44:/", number{}, number{}, false},
		"detached: not of the device":      {"dev:8:33", number{}, number{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := s.target(test.place)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.reaches(target, s.pathUses[0], test.device, test.file); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
