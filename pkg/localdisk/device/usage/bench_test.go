// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// bench is this machine, with a temporary folder and the devices of a test.
// What it makes is removed when the test ends, in reverse order.
type bench struct {
	t    *testing.T
	root string
}

func newBench(t *testing.T) *bench {
	if os.Getuid() != 0 {
		t.Skip("devices and mounts need root")
	}
	b := &bench{t: t, root: t.TempDir()}
	b.folder("kubelet/pods")
	return b
}

func (b *bench) folder(p string) string {
	b.t.Helper()
	p = filepath.Join(b.root, p)
	if err := os.MkdirAll(p, 0o755); err != nil {
		b.t.Fatal(err)
	}
	return p
}

// run runs a command and returns the first line of its output.
func (b *bench) run(command ...string) string {
	b.t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		b.t.Skipf("%s is not installed", command[0])
	}
	out, err := exec.CommandContext(b.t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// undo runs a command when the test ends.
func (b *bench) undo(command ...string) {
	b.t.Cleanup(func() {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			b.t.Errorf("%s: %v: %s", strings.Join(command, " "), err, out)
		}
	})
}

// image makes a file of some MiB.
func (b *bench) image(name string, mib int64) string {
	b.t.Helper()
	p := filepath.Join(b.root, name)
	if err := os.WriteFile(p, nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Truncate(p, mib<<20); err != nil {
		b.t.Fatal(err)
	}
	return p
}

// attach attaches a loop device to a file or a device. The kernel drops the partitions of one that
// scans for them when it is detached, which is later than losetup -d while another process, such
// as one that searches for users of a disk, has it or a device over it open.
func (b *bench) attach(backing string) string {
	b.t.Helper()
	dev := b.run("losetup", "-f", "--show", "--partscan", backing)
	b.undo("losetup", "-d", dev)
	return dev
}

// disk makes a device of some MiB.
func (b *bench) disk(name string, mib int64) string {
	b.t.Helper()
	return b.attach(b.image(name, mib))
}

// partitions divides a device of 64 MiB in two.
func (b *bench) partitions(dev string) (first, second string) {
	b.t.Helper()
	for i, start := range []string{"2048", "67584"} {
		b.run("addpart", dev, strconv.Itoa(i+1), start, "61440")
	}
	return dev + "p1", dev + "p2"
}

// mkfs makes an ext4 file system and mounts it.
func (b *bench) mkfs(dev, point string) string {
	b.t.Helper()
	b.run("mkfs.ext4", "-q", "-O", "^has_journal", dev)
	return b.mount(dev, point)
}

// mount runs mount(8); its last argument is a folder of the bench.
func (b *bench) mount(args ...string) string {
	b.t.Helper()
	point := b.folder(args[len(args)-1])
	args[len(args)-1] = point
	b.run(append([]string{"mount"}, args...)...)
	// Lazily: a loop device over a file of the mount stays attached after losetup -d while another
	// process has it open, as those that search for users of a disk do.
	b.undo("umount", "--lazy", point)
	return point
}

func (b *bench) finder() *Finder {
	b.t.Helper()
	l, err := New(Config{
		Mountinfo: "/proc/self/mountinfo", Swaps: "/proc/swaps", Sys: "/sys", Dev: "/dev",
		KubeletDir: filepath.Join(b.root, "kubelet"),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

// device is the fact of a device, mounted that of a folder.
func (b *bench) device(dev string) disk.Fact {
	b.t.Helper()
	return disk.Fact{
		HostPath: "/mnt/disks/a", Kind: disk.Device, Device: dev,
		Place: numberOfStat(b.stat(dev).Rdev).place(),
	}
}

func (b *bench) mounted(point, root string) disk.Fact {
	b.t.Helper()
	return disk.Fact{
		HostPath: point, Path: point, Kind: disk.Mount,
		Place: "fs:" + numberOfStat(b.stat(point).Dev).String() + ":" + root,
	}
}

func (b *bench) stat(p string) unix.Stat_t {
	b.t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		b.t.Fatal(err)
	}
	return st
}

// users returns the users of a fact, with the bench's folder as "~".
func (b *bench) users(fact disk.Fact, volume string) []string {
	b.t.Helper()
	us, err := b.finder().Users(b.t.Context(), fact, volume)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.short(us)
}

func (b *bench) claims(fact disk.Fact, volume string) []string {
	b.t.Helper()
	s, err := b.finder().Survey(nil, []string{filepath.Join(b.root, "disks")})
	if err != nil {
		b.t.Fatal(err)
	}
	us, err := s.BlockingUsers(fact, volume)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.short(us)
}

func (b *bench) short(us []disk.User) []string {
	var out []string
	for _, w := range words(us) {
		out = append(out, strings.ReplaceAll(w, b.root, "~"))
	}
	return out
}
