// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/usage"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func needs(t testing.TB, tools ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root for loop devices and mounts")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
}

func run(t testing.TB, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFolder makes a discovery directory on a separate file system in memory.
func newFolder(t testing.TB, class string) disk.Folder {
	t.Helper()
	needs(t)
	path, err := os.MkdirTemp("", "probe") //nolint:usetesting // What is removed with a mount still in it is removed in the mount.
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(path) })
	mount(t, path, "-t", "tmpfs", "-o", "size=1M", "none")
	return disk.Folder{Class: class, Path: path, HostPath: path, Mode: disk.Filesystem}
}

// mount mounts at a point, which it creates if necessary.
func mount(t testing.TB, point string, args ...string) {
	t.Helper()
	must(t, os.MkdirAll(point, 0o755))
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	run(t, append(append([]string{"mount"}, args...), point)...)
}

func unmount(t testing.TB, point string) {
	t.Helper()
	must(t, unix.Unmount(point, 0))
}

// image makes a file of a size such as "16M".
func image(t testing.TB, size string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "disk")
	must(t, err)
	defer f.Close()
	run(t, "truncate", "-s", size, f.Name())
	return f.Name()
}

func attach(t testing.TB, file string, args ...string) string {
	t.Helper()
	needs(t, "losetup", "truncate")
	device := run(t, append(append([]string{"losetup", "-f", "--show"}, args...), file)...)
	t.Cleanup(func() { detach(t, device, file) })
	return device
}

// detach detaches a device, unless it is already detached, or attached to another file.
func detach(t testing.TB, device, file string) {
	t.Helper()
	backing, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
	if err == nil && strings.HasPrefix(string(backing), file) {
		run(t, "losetup", "-d", device)
	}
}

// newDisk is a loop device.
func newDisk(t testing.TB) string {
	t.Helper()
	return attach(t, image(t, "16M"))
}

// newFileSystem is a loop device with ext4 on it.
func newFileSystem(t testing.TB) string {
	t.Helper()
	needs(t, "mkfs.ext4")
	device := newDisk(t)
	run(t, "mkfs.ext4", "-q", device)
	return device
}

func link(t testing.TB, target string, elements ...string) {
	t.Helper()
	must(t, os.Symlink(target, filepath.Join(elements...)))
}

func finderFor(t testing.TB, kubelet string) *usage.Finder {
	t.Helper()
	l, err := usage.New(usage.Config{
		Mountinfo: mounts.Self, Swaps: "/proc/swaps", Sys: "/sys", Dev: "/dev",
		KubeletDir: kubelet,
	})
	must(t, err)
	return l
}

func newProber(t testing.TB, change ...func(*Config)) *Prober {
	t.Helper()
	cfg := Config{Usage: finderFor(t, "/var/lib/kubelet"), HostMountinfo: mounts.Self, Sys: "/sys", Dev: "/dev"}
	for _, c := range change {
		c(&cfg)
	}
	p, err := New(cfg)
	must(t, err)
	return p
}

// scan scans, checks invariants, and returns the facts by name.
func scan(t testing.TB, p *Prober, s disk.Scan) map[string]disk.Fact {
	t.Helper()
	got := p.Scan(t.Context(), s)
	if len(got.Trouble) > 0 {
		t.Fatalf("trouble: %v", got.Trouble)
	}
	facts := make(map[string]disk.Fact)
	for key, f := range got.Facts {
		if f.Key != key {
			t.Errorf("the fact of %s is at %s", f.Key, key)
		}
		if f.Problem == nil && (f.Identity == "" || f.Place == "" || f.Bytes == 0 || f.Kind == "") {
			t.Errorf("%s has no problem, and is not whole: %+v", key, f)
		}
		facts[key.Name] = f
	}
	return facts
}

func reason(f disk.Fact) disk.Reason {
	if f.Problem == nil {
		return ""
	}
	return f.Problem.Reason
}
