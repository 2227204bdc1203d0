// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package stagingdir_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/nodeservice/stagingdir"
	"stowage.dev/stowage/pkg/pav/pavdir"
)

const (
	volume = "0123456789abcdef0123456789abcdef"
	uid    = "6f6c1d4e-0000-0000-0000-000000000001"
)

// node has the directories of stagings on a file system of its own. Its tests are not parallel: a process
// that another test starts has the open files of this one until it executes its program, and so keeps
// mounts busy.
type node struct {
	t    *testing.T
	path string
	*stagingdir.Dirs
	detaches map[string]func() // of loop devices
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	n := &node{t: t, path: t.TempDir()}
	n.do(unix.Mount("node", n.path, "tmpfs", 0, "size=32m"))
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "--recursive", n.path).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v: %s", err, out)
		}
	})
	var err error
	n.Dirs, err = stagingdir.New(stagingdir.Config{Root: filepath.Join(n.path, "pav"), Proc: "/proc", Sys: "/sys", Dev: "/dev"})
	n.do(err)
	for attempt := range int64(3) {
		n.do(os.MkdirAll(n.pav(attempt+1), 0o755))
	}
	return n
}

func (n *node) do(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) pav(attempt int64) string {
	return pavdir.AttemptPath(filepath.Join(n.path, "pav"), volume, uid, attempt)
}

// volumeOf opens the volume of an attempt.
func (n *node) volumeOf(attempt int64) *stagingdir.Volume {
	n.t.Helper()
	v, err := n.Open(stagingdir.Attempt{Volume: volume, UID: uid, Number: attempt})
	n.do(err)
	n.t.Cleanup(func() { _ = v.Close() })
	return v
}

// loop attaches a loop device to a file of the node, and returns its path.
func (n *node) loop(file string) string {
	n.t.Helper()
	n.do(os.WriteFile(file, make([]byte, 1<<20), 0o600))
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		n.t.Fatalf("losetup: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	if n.detaches == nil {
		n.detaches = map[string]func(){}
	}
	// Once: another test may have a device of that name afterwards.
	n.detaches[device] = sync.OnceFunc(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			n.t.Errorf("losetup: %v: %s", err, out)
		}
	})
	n.t.Cleanup(n.detaches[device])
	return device
}

// offer makes a block device the volume of attempt 1.
func (n *node) offer(device string) *stagingdir.Volume {
	n.t.Helper()
	var st unix.Stat_t
	n.do(unix.Stat(device, &st))
	n.do(unix.Mknod(filepath.Join(n.pav(1), "volume"), unix.S_IFBLK|0o600, int(st.Rdev)))
	return n.volumeOf(1)
}

// left fails unless something of the attempts up to a number is left, of which the error says what.
func (n *node) left(upTo int64, staged *stowage.StagedVolume, what string) {
	n.t.Helper()
	err := n.Clear(volume, uid, upTo, staged)
	if found, ok := errors.AsType[*stagingdir.Left](err); !ok || !strings.Contains(found.Error(), what) {
		n.t.Errorf("error %v, want that %q is left", err, what)
	}
}

// What staging pods have left mounted is unmounted, the last mount first, but only of attempts that have
// ended, and never while it is in use.
func TestMounts(t *testing.T) {
	n := newNode(t)
	mount := func(path string) {
		t.Helper()
		n.do(os.MkdirAll(path, 0o755))
		n.do(unix.Mount("x", path, "tmpfs", 0, "size=1m"))
	}
	mount(filepath.Join(n.pav(1), "volume"))
	mount(filepath.Join(n.pav(1), "volume"))
	mount(filepath.Join(n.pav(1), "volume/nested"))
	mount(filepath.Join(n.pav(2), "volume"))
	open, err := os.Create(filepath.Join(n.pav(1), "volume/nested/file"))
	n.do(err)
	n.left(1, nil, "volume/nested")
	n.do(open.Close())
	n.do(n.Clear(volume, uid, 1, nil))
	out, err := exec.Command("findmnt", "--noheadings", "--list", "--output=TARGET").Output()
	n.do(err)
	if strings.Contains(string(out), n.pav(1)) || !strings.Contains(string(out), n.pav(2)) {
		t.Errorf("mounts of the first attempt are left, or those of the second are not:\n%s", out)
	}
}

// A loop device with a file of an attempt is left, whatever it is used for.
func TestLoopDevice(t *testing.T) {
	n := newNode(t)
	device := n.loop(filepath.Join(n.pav(2), "image"))
	n.do(n.Clear(volume, uid, 1, nil))
	n.left(2, nil, device)
	n.detaches[device]()
	n.do(n.Clear(volume, uid, 2, nil))
}

// A block device that is mounted or attached is left, unless its number is that of another device now.
func TestBlockDevice(t *testing.T) {
	n := newNode(t)
	device := n.loop(filepath.Join(n.path, "image"))
	v := n.offer(device)
	staged := v.Staged(1)
	n.left(1, &staged, "image")
	other := staged
	other.DiskSequence = "1"
	n.do(n.Clear(volume, uid, 1, &other))
	n.do(n.Unheld(v))
	if out, err := exec.Command("mkfs.ext4", "-q", device).CombinedOutput(); err != nil {
		t.Fatalf("mkfs: %v: %s", err, out)
	}
	at := filepath.Join(n.path, "mounted")
	n.do(os.Mkdir(at, 0o755))
	n.do(unix.Mount(device, at, "ext4", 0, ""))
	n.left(1, &staged, "mounted at "+at)
	if err := n.Unheld(v); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error %v, want that the device is in use", err)
	}
	if err := n.ReadOnly(v); err == nil || !strings.Contains(err.Error(), "can be written to") {
		t.Errorf("error %v, want that the device can be written to", err)
	}
	n.do(unix.Unmount(at, 0))
	set := func(flag string) {
		t.Helper()
		if out, err := exec.Command("blockdev", flag, device).CombinedOutput(); err != nil {
			t.Fatalf("blockdev: %v: %s", err, out)
		}
	}
	set("--setro")
	defer set("--setrw") // the kernel keeps the flag for the next file of the device
	n.do(n.ReadOnly(v))
	n.detaches[device]()
	n.do(n.Clear(volume, uid, 1, &staged))
}

// A staging pod that may offer some devices cannot offer others.
func TestAllowed(t *testing.T) {
	n := newNode(t)
	device := n.loop(filepath.Join(n.path, "image"))
	v := n.offer(device)
	link := filepath.Join(n.path, "dev")
	n.do(os.Mkdir(link, 0o755))
	n.do(os.Symlink(device, filepath.Join(link, "crypt-1")))
	n.Dev = link
	for pattern, allowed := range map[string]bool{
		"*": true, "/dev/crypt-*": true, "/dev/crypt-2": false, "/dev/mapper/*": false, "/dev/../dev/crypt-1": true, "/dev/../../crypt-1": false, "/dev/[": false,
	} {
		if err := n.Allowed(v, []string{pattern}); (err == nil) != allowed {
			t.Errorf("pattern %s: %v, want allowed: %t", pattern, err, allowed)
		}
	}
	if err := n.Allowed(v, nil); err == nil {
		t.Error("without patterns, a device is allowed")
	}
}

// Directories are removed without what they link to, and never while something is mounted there.
func TestRemove(t *testing.T) {
	n := newNode(t)
	outside := filepath.Join(n.path, "outside")
	n.do(os.MkdirAll(filepath.Join(outside, "dir"), 0o755))
	n.do(os.Symlink(outside, filepath.Join(n.pav(1), "volume")))
	n.do(os.MkdirAll(filepath.Join(n.pav(2), "volume"), 0o755))
	n.do(unix.Mount(outside, filepath.Join(n.pav(2), "volume"), "", unix.MS_BIND, ""))
	open, err := os.Create(filepath.Join(n.pav(2), "volume/dir/file"))
	n.do(err)
	if err := n.Remove(t.Context(), volume, uid); err == nil {
		t.Error("directories with a busy mount were removed")
	}
	n.do(open.Close())
	if found, err := n.UIDs(volume); err != nil || fmt.Sprint(found) != "["+uid+"]" {
		t.Errorf("stagings %v, %v", found, err)
	}
	n.do(n.Remove(t.Context(), volume, uid))
	n.do(n.Remove(t.Context(), volume, uid))
	if _, err := os.Stat(filepath.Join(outside, "dir/file")); err != nil {
		t.Errorf("a file that was linked, or mounted, is gone: %v", err)
	}
	if volumes, err := n.Volumes(); err != nil || len(volumes) > 0 {
		t.Errorf("volumes %v, %v, want none", volumes, err)
	}
}

// What is mounted between the check for mounts and the removal is not removed.
func TestRemoveMountedMeanwhile(t *testing.T) {
	n := newNode(t)
	outside := filepath.Join(n.path, "outside")
	n.do(os.MkdirAll(filepath.Join(outside, "dir"), 0o755))
	n.do(os.Mkdir(filepath.Join(n.pav(2), "volume"), 0o755))
	before := filepath.Join(n.path, "proc")
	table, err := os.ReadFile("/proc/self/mountinfo")
	n.do(err)
	n.do(os.MkdirAll(filepath.Join(before, "self"), 0o755))
	n.do(os.WriteFile(filepath.Join(before, "self/mountinfo"), table, 0o644))
	n.do(unix.Mount(outside, filepath.Join(n.pav(2), "volume"), "", unix.MS_BIND, ""))
	dirs, err := stagingdir.New(stagingdir.Config{Root: n.Root, Proc: before, Sys: "/sys", Dev: "/dev"})
	n.do(err)
	if err := dirs.Remove(t.Context(), volume, uid); err == nil || !strings.Contains(err.Error(), "something is mounted at") {
		t.Errorf("error %v, want that something is mounted", err)
	}
	if _, err := os.Stat(filepath.Join(outside, "dir")); err != nil {
		t.Errorf("a directory that was mounted is gone: %v", err)
	}
}

// Names that are none of a volume or a UID name no directory.
func TestNames(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"", "..", "../../etc", volume + "/..", strings.ToUpper(volume)} {
		if err := n.Remove(t.Context(), name, uid); err == nil {
			t.Errorf("volume %q was removed", name)
		}
		if _, err := n.Open(stagingdir.Attempt{Volume: volume, UID: name + "/..", Number: 1}); err == nil {
			t.Errorf("staging %q was opened", name)
		}
	}
}
