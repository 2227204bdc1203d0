// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/superblock"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

func accept(*os.File) error { return nil }

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// loop returns a blank device, and skips the test without root.
func loop(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("to attach loop devices takes root")
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 400<<20); err != nil {
		t.Fatal(err)
	}
	device := run(t, "losetup", "--find", "--show", file)
	t.Cleanup(func() {
		if err := exec.Command("losetup", "--detach", device).Run(); err != nil {
			t.Error(err)
		}
	})
	return device
}

func newPoints(t *testing.T) Points {
	t.Helper()
	return Points{Folder: t.TempDir(), Mountinfo: mounts.Self}
}

// format returns a format with a new UUID.
func format(t *testing.T, fsType string) disk.Format {
	t.Helper()
	uuid, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		t.Fatal(err)
	}
	return disk.Format{Type: fsType, UUID: strings.TrimSpace(string(uuid))}
}

func place(t *testing.T, device string) string {
	t.Helper()
	return "dev:" + run(t, "stat", "-c", "%Hr:%Lr", device)
}

// mount mounts a device for a volume, and detaches it after the test.
func mount(t *testing.T, p Points, device string, f disk.Format, options ...string) (volume string) {
	t.Helper()
	volume = p.Folder + "/fast/pv/data"
	t.Cleanup(func() { _ = p.Detach(volume) })
	if err := p.Mount(volume, device, f.Type, options, accept); err != nil {
		t.Fatal(err)
	}
	return volume
}

func unused(t *testing.T, device string, f disk.Format) (bool, string) {
	t.Helper()
	ok, found, err := Unused(device, f.Type, accept)
	if err != nil {
		t.Fatal(err)
	}
	return ok, found
}

// TestMakeAndMount: the folder of a volume exists only while its file system is mounted, and what
// is written there is found again.
func TestMakeAndMount(t *testing.T) {
	for _, fsType := range []string{"ext2", "ext3", "ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			device, p, f := loop(t), newPoints(t), format(t, fsType)
			if err := Make(t.Context(), device, f, accept); err != nil {
				t.Fatal(err)
			}
			if ok, found := unused(t, device, f); !ok {
				t.Errorf("a new file system has %s", found)
			}
			volume := mount(t, p, device, f, "noatime")
			for range 2 { // in place of the first
				if err := p.Mount(volume, device, f.Type, []string{"noatime"}, accept); err != nil {
					t.Fatal(err)
				}
			}
			if at, err := p.Device(volume); err != nil || at != place(t, device) {
				t.Errorf("mounted is %q (%v), want %s", at, err, place(t, device))
			}
			if all, err := p.Mounted(); err != nil || !slices.Equal(all, []string{volume}) {
				t.Errorf("the mounted volumes are %q (%v)", all, err)
			}
			if options := run(t, "findmnt", "-n", "-o", "OPTIONS", filepath.Dir(volume)); !strings.HasPrefix(options, "rw,nosuid,nodev,noatime") {
				t.Errorf("the options are %s", options)
			}
			if err := os.WriteFile(volume+"/file", []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := p.Detach(volume); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(volume); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder exists without the mount: %v", err)
			}
			if at, err := p.Device(volume); err != nil || at != "" {
				t.Errorf("after the detach, mounted is %q (%v)", at, err)
			}
			if ok, found := unused(t, device, f); ok || !strings.Contains(found, "files in folder data") {
				t.Errorf("a used file system counts as unused, with %q", found)
			}
			mount(t, p, device, f)
			if text, err := os.ReadFile(volume + "/file"); err != nil || string(text) != "text" {
				t.Errorf("the file has %q (%v)", text, err)
			}
		})
	}
}

// TestRefused: neither a mkfs nor a mount of what is not as expected.
func TestRefused(t *testing.T) {
	device, p, f := loop(t), newPoints(t), format(t, "ext4")
	volume := p.Folder + "/fast/pv/data"
	other := errors.New("another disk")
	refuse := func(*os.File) error { return other }
	if err := Make(t.Context(), device, f, refuse); !errors.Is(err, other) {
		t.Errorf("Make of another disk: %v", err)
	}
	if found, err := superblock.Read(t.Context(), device, accept); err != nil || !found.Blank() {
		t.Errorf("another disk holds %v (%v)", found, err)
	}
	if err := p.Mount(volume, device, f.Type, nil, accept); err == nil {
		t.Error("a blank disk was mounted")
	}
	run(t, "mkfs.ext4", "-q", device)
	before, err := superblock.Read(t.Context(), device, accept)
	if err != nil {
		t.Fatal(err)
	}
	var problem *disk.Problem
	if err := Make(t.Context(), device, f, accept); !errors.As(err, &problem) || problem.Reason != disk.NotEmpty {
		t.Errorf("Make on a file system: %v", err)
	}
	if after, err := superblock.Read(t.Context(), device, accept); err != nil || after != before {
		t.Errorf("the device held %v and holds %v (%v)", before, after, err)
	}
	if err := p.Mount(volume, device, f.Type, nil, refuse); !errors.Is(err, other) {
		t.Errorf("Mount of another disk: %v", err)
	}
	if err := p.Mount(volume, device, f.Type, nil, accept); !errors.As(err, &problem) || problem.Reason != disk.FilesystemChanged {
		t.Errorf("Mount without the folder: %v", err)
	}
	if err := p.Mount(volume, device, f.Type, []string{"nonsense=1"}, accept); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("Mount with an unknown option: %v", err)
	}
	if at, err := p.Device(volume); err != nil || at != "" {
		t.Errorf("mounted is %q (%v)", at, err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := Make(t.Context(), device, f, accept); !errors.As(err, &problem) || problem.Reason != disk.MkfsMissing {
		t.Errorf("without mkfs: %v", err)
	}
	for _, bad := range []string{p.Folder, p.Folder + "/fast", p.Folder + "/fast/../pv/data", p.Folder + "/a/b/c", p.Folder + "/a/b/data/d", "/mnt/a/b/data"} {
		if err := p.Detach(bad); err == nil {
			t.Errorf("detached %s", bad)
		}
	}
}

// TestInterrupted: whatever a killed mkfs has left, another one with the same format succeeds.
func TestInterrupted(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			device, f := loop(t), format(t, fsType)
			left := map[string]int{}
			for i := range 40 {
				run(t, "wipefs", "-aq", device)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond/2)
				err := Make(ctx, device, f, accept)
				cancel()
				if err == nil {
					left["finished"]++
					continue
				}
				found, readErr := superblock.Read(t.Context(), device, accept)
				if readErr != nil {
					t.Fatal(readErr)
				}
				left[strings.ReplaceAll(found.Holds(), f.UUID, "UUID")]++
				if err := Make(t.Context(), device, f, accept); err != nil {
					t.Fatalf("after %v: %v", found, err)
				}
				if ok, found := unused(t, device, f); !ok {
					t.Fatalf("the file system has %s", found)
				}
			}
			t.Log(left)
		})
	}
}

// TestInvalidSuperblock: nothing but an invalid superblock is what an interrupted mkfs of its type
// may leave, and of no other.
func TestInvalidSuperblock(t *testing.T) {
	for fsType, content := range map[string]map[int64]string{
		"ext4": {1080: "\x53\xef", 1124: "\x00\x04"}, // of which the checksum is wrong
		"xfs":  {0: "XFSB"},
	} {
		device := loop(t)
		file, err := os.OpenFile(device, os.O_WRONLY|unix.O_SYNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at, text := range content {
			if _, err := file.WriteAt([]byte(text), at); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		for _, formatting := range []string{"ext4", "xfs"} {
			err := Make(t.Context(), device, format(t, formatting), accept)
			if formatting != fsType && err == nil {
				t.Errorf("mkfs.%s overwrote a superblock of %s", formatting, fsType)
			}
			if formatting == fsType && err != nil {
				t.Errorf("mkfs.%s: %v", formatting, err)
			}
			if err == nil {
				break
			}
		}
	}
}

// TestBusy: a device that is mounted anywhere is not formatted, also after its mount was detached.
func TestBusy(t *testing.T) {
	device, p, f := loop(t), newPoints(t), format(t, "xfs")
	if err := Make(t.Context(), device, f, accept); err != nil {
		t.Fatal(err)
	}
	volume, bind := mount(t, p, device, f), t.TempDir()
	if err := unix.Mount(volume, bind, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(bind, unix.MNT_DETACH) })
	if err := p.Detach(volume); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bind+"/file", nil, 0o600); err != nil {
		t.Errorf("the bind mount has ended: %v", err)
	}
	if err := Make(t.Context(), device, f, accept); err == nil {
		t.Error("a file system that is in use was overwritten")
	}
	if err := unix.Unmount(bind, 0); err != nil {
		t.Fatal(err)
	}
	if err := Make(t.Context(), device, f, accept); err != nil {
		t.Errorf("after the last mount: %v", err)
	}
}
