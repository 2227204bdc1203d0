// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestUsersOfAFilesystem(t *testing.T) {
	cases := map[string]userTest{
		"nothing": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			return b.mounted(b.mkfs(b.disk("a", 64), "disks/a"), "/"), nil, nil
		},
		"memory, without a user": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			return b.mounted(b.mount("-t", "tmpfs", "none", "disks/a"), "/"), nil, nil
		},
		"another mount of it": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			point := b.mkfs(b.disk("a", 64), "disks/a")
			b.mount("--bind", point, "srv")
			return b.mounted(point, "/"), []string{"mount ~/srv"}, []string{"mount ~/srv"}
		},
		"a mount of a folder in it": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			point := b.mkfs(b.disk("a", 64), "disks/a")
			b.mount("--bind", b.folder("disks/a/x"), "srv")
			return b.mounted(point, "/"), []string{"mount ~/srv"}, []string{"mount ~/srv"}
		},
		"nothing: another folder of the same file system is in use": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			b.mkfs(b.disk("a", 64), "big")
			b.mount("--bind", b.folder("big/b"), "srv")
			point := b.mount("--bind", b.folder("big/a"), "disks/a")
			return b.mounted(point, "/a"), nil, nil
		},
		"kubelet, which has mounted it for a pod": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			point := b.mkfs(b.disk("a", 64), "disks/a")
			b.mount("--bind", point, podMount)
			return b.mounted(point, "/"), []string{"kubelet ~/" + podMount, "mount ~/" + podMount}, nil
		},
		"kubelet, which has not removed its folder": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			point := b.mkfs(b.disk("a", 64), "disks/a")
			b.folder(podMount)
			b.folder(podMount + "0") // another volume
			return b.mounted(point, "/"), []string{"kubelet ~/" + podMount}, nil
		},
		"a loop device over a file": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			point := b.mkfs(b.disk("a", 64), "disks/a")
			lo := b.attach(b.image("disks/a/image", 4))
			return b.mounted(point, "/"), []string{"loop device " + lo}, nil
		},
		"nothing: a loop device is over a file outside of it": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			b.mkfs(b.disk("a", 64), "big")
			point := b.mount("--bind", b.folder("big/a"), "disks/a")
			b.attach(b.image("big/image", 4))
			return b.mounted(point, "/a"), nil, nil
		},
		"a loop device over a file in a private mount": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			point := b.mkfs(dev, "disks/a")
			b.image("disks/a/image", 4)
			lo := b.run("unshare", "-m", "sh", "-c",
				`mount "$1" "$2" && losetup -f --show "$2/image"`, "sh", dev, b.folder("private"))
			b.undo("losetup", "-d", lo)
			return b.mounted(point, "/"), []string{"loop device " + lo}, nil
		},
		"a loop device over a file of btrfs in a private mount": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 128)
			b.run("mkfs.btrfs", "-q", dev)
			point := b.mount("-t", "btrfs", dev, "disks/a")
			b.image("disks/a/image", 4)
			lo := b.run("unshare", "-m", "sh", "-c",
				`mount "$1" "$2" && losetup -f --show "$2/image"`, "sh", dev, b.folder("private"))
			b.undo("losetup", "-d", lo)
			fact := b.mounted(point, "/")
			s, err := b.finder().Survey(nil, nil)
			if err != nil {
				b.t.Fatal(err)
			}
			m, _ := s.table.At(point)
			fact.Place = "fs:" + numberOf(m).String() + ":/" // another number than that of its files
			return fact, []string{"loop device " + lo}, nil
		},
		"a loop device over its device": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			dev := b.disk("a", 64)
			point := b.mkfs(dev, "disks/a")
			lo := b.attach(dev)
			return b.mounted(point, "/"), []string{"loop device " + lo}, []string{"loop device " + lo}
		},
		"an overlay that has its layers in it": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			point := b.mkfs(b.disk("a", 64), "disks/a")
			upper, work := b.folder("disks/a/up per"), b.folder("disks/a/work")
			b.mount("-t", "overlay", "none", "-o", "lowerdir="+b.folder("lower")+",upperdir="+upper+",workdir="+work, "srv")
			return b.mounted(point, "/"), []string{"mount ~/srv"}, nil
		},
		"a swap file": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			point := b.mkfs(b.disk("a", 64), "disks/a")
			file := point + "/swap"
			b.run("fallocate", "-l", "8M", file)
			b.run("chmod", "600", file)
			b.swapOn(file)
			return b.mounted(point, "/"), []string{"swap ~/disks/a/swap"}, nil
		},
		"only itself, with a symlink in its path on the host": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			fact := b.mounted(b.mkfs(b.disk("a", 64), "disks/a"), "/")
			b.link("disks", "link")
			fact.HostPath = filepath.Join(b.root, "link/a")
			return fact, nil, nil
		},
		"another mount of it, with a symlink in its path on the host": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			point := b.mkfs(b.disk("a", 64), "disks/a")
			b.mount("--bind", point, "srv")
			fact := b.mounted(point, "/")
			b.link("disks", "link")
			fact.HostPath = filepath.Join(b.root, "link/a")
			return fact, []string{"mount ~/srv"}, []string{"mount ~/srv"}
		},
		"a directory without a mount": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			b.mkfs(b.disk("a", 64), "disks")
			return b.mounted(b.folder("disks/a"), "/a"), nil, nil
		},
		"a directory that is mounted elsewhere": func(_ *testing.T, b *bench) (disk.Fact, []string, []string) {
			b.mkfs(b.disk("a", 64), "disks")
			point := b.folder("disks/a")
			b.mount("--bind", point, "srv")
			return b.mounted(point, "/a"), []string{"mount ~/srv"}, []string{"mount ~/srv"}
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}

func TestUnknownIsAnError(t *testing.T) {
	b := newBench(t)
	dev, other := b.disk("a", 16), b.disk("b", 16)
	good := Config{
		Mountinfo: "/proc/self/mountinfo", Swaps: "/proc/swaps", Sys: "/sys", Dev: "/dev", KubeletDir: b.root + "/kubelet",
	}
	with := func(change func(c *Config)) Config {
		c := good
		change(&c)
		return c
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	fact := b.device(dev)
	cases := map[string]struct {
		ctx    context.Context
		config Config
		fact   disk.Fact
		volume string
	}{
		"no mountinfo":                   {config: with(func(c *Config) { c.Mountinfo = b.root + "/none" }), fact: fact},
		"a mountinfo without mounts":     {config: with(func(c *Config) { c.Mountinfo = b.image("empty", 0) }), fact: fact},
		"no sysfs":                       {config: with(func(c *Config) { c.Sys = b.root + "/none" }), fact: fact},
		"swaps that cannot be read":      {config: with(func(c *Config) { c.Swaps = b.root }), fact: fact},
		"no nodes of loop devices":       {config: with(func(c *Config) { c.Dev = b.root }), fact: fact},
		"no folder of kubelet":           {config: with(func(c *Config) { c.KubeletDir = b.root }), fact: fact, volume: "pv-1"},
		"a volume's name with a slash":   {config: good, fact: fact, volume: "../pv-1"},
		"no place":                       {config: good, fact: disk.Fact{Device: dev}},
		"a place that is none":           {config: good, fact: disk.Fact{Device: dev, Place: "dev:8"}},
		"a place with nonsense":          {config: good, fact: disk.Fact{Device: dev, Place: "fs:8:x:/"}},
		"a device that is not there":     {config: good, fact: disk.Fact{Device: dev, Place: "dev:4000:1"}},
		"a device that is another now":   {config: good, fact: disk.Fact{Device: other, Place: fact.Place}},
		"a device's node that is a file": {config: good, fact: disk.Fact{Device: b.root + "/empty", Place: fact.Place}},
		"an ended context":               {ctx: ended, config: good, fact: fact},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l, err := New(c.config)
			if err != nil {
				t.Fatal(err)
			}
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			if got, err := l.Users(c.ctx, c.fact, c.volume); err == nil {
				t.Errorf("users are %v, want an error", got)
			}
		})
	}
}

func TestPathsAreAbsolute(t *testing.T) {
	for name, c := range map[string]Config{
		"nothing set":     {},
		"kubelet missing": {Mountinfo: "/a", Swaps: "/b", Sys: "/c", Dev: "/d"},
		"relative":        {Mountinfo: "a", Swaps: "/b", Sys: "/c", Dev: "/d", KubeletDir: "/e"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestKubeletPath(t *testing.T) {
	w := newFakeNode(t)
	w.folder("kubelet/pods/1/volumes/kubernetes.io~local-volume/pv-1")
	uses, err := w.finder().kubelet("pv-1")
	if err != nil {
		t.Fatal(err)
	}
	want := "kubelet /var/lib/kubelet/pods/1/volumes/kubernetes.io~local-volume/pv-1"
	if len(uses) != 1 || uses[0].String() != want {
		t.Errorf("uses are %v, want %s: a path of the host", uses, want)
	}
	if err := os.RemoveAll(filepath.Join(w.root, "kubelet")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.finder().kubelet("pv-1"); err == nil {
		t.Error("no error when kubelet's folder is not there")
	}
}

func TestLoopDevicesOverTheNetworkAreNotOpened(t *testing.T) {
	// The fake node has no device nodes in /dev: every open is an error.
	cases := map[string]struct {
		backing string
		asked   bool
	}{
		"on the network":         {"/net/image", false},
		"on a local file system": {"/var/image", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newFakeNode(t)
			w.mount("0:50", "/", "/net", "nfs4 server:/")
			w.loop("loop0", "7:0", c.backing)
			l, s := w.finder(), w.survey()
			sdb, err := s.target("dev:8:16")
			if err != nil {
				t.Fatal(err)
			}
			uses, err := l.loops(t.Context(), s, sdb)
			if len(uses) > 0 || (err != nil) != c.asked {
				t.Errorf("uses %v, error %v; want the device opened: %v", uses, err, c.asked)
			}
		})
	}
}
