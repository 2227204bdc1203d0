// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOfMount(t *testing.T) {
	for fsType, size := range map[string]string{"ext4": "16M", "xfs": "300M", "btrfs": "128M"} {
		t.Run(fsType, func(t *testing.T) {
			needs(t, "losetup", "mkfs."+fsType)
			file := sparse(t, size)
			device := attach(t, file)
			run(t, "mkfs."+fsType, "-q", device)
			point := mountAt(t, device)
			first := identityOfMount(t, point)
			if first.Scheme() != "fs" || !strings.HasSuffix(string(first), ":/@m1") {
				t.Fatalf("identity is %s", first)
			}
			own, err := ownUUID(opened(t, point))
			if err != nil || len(own) == 0 {
				t.Fatalf("by the request of the file system, as on older kernels: %x, %v", own, err)
			}
			// Linux 6.18 does not support the common request for btrfs.
			if common, err := commonUUID(opened(t, point)); err == nil && !bytes.Equal(own, common) {
				t.Errorf("on an older kernel the UUID would be %x, and not %x", own, common)
			}

			if err := os.Mkdir(filepath.Join(point, "a b:c"), 0o755); err != nil {
				t.Fatal(err)
			}
			folder := identityOfMount(t, mountAt(t, "--bind", filepath.Join(point, "a b:c")))
			if want := strings.TrimSuffix(string(first), "/@m1") + "/a%20b%3Ac@m1"; string(folder) != want {
				t.Errorf("a folder of it is %s, want %s", folder, want)
			}

			run(t, "umount", "-l", point)
			again := mountAt(t, device)
			if got := identityOfMount(t, again); got != first {
				t.Errorf("mounted elsewhere it is %s, was %s", got, first)
			}
		})
	}
}

func opened(t *testing.T, point string) int {
	t.Helper()
	f, err := openFolder(point)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f.fd
}

func TestOfMountInMemory(t *testing.T) {
	needs(t)
	first := mountAt(t, "-t", "tmpfs", "-o", "size=1M", "none")
	one := identityOfMount(t, first)
	if one.Scheme() != "mem" {
		t.Fatalf("identity is %s", one)
	}
	if two := identityOfMount(t, mountAt(t, "-t", "tmpfs", "-o", "size=1M", "none")); two == one {
		t.Fatalf("two file systems in memory are both %s", one)
	}
	if bound := identityOfMount(t, mountAt(t, "--bind", first)); bound != one {
		t.Errorf("seen through another mount, as from a container, it is %s and not %s", bound, one)
	}
	if err := unix.Unmount(first, 0); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", "tmpfs", "-o", "size=1M", "none", first)
	if again := identityOfMount(t, first); again == one {
		t.Errorf("after a remount it is still %s", one)
	}
}

func TestReplacedMount(t *testing.T) {
	needs(t)
	point := mountAt(t, "-t", "tmpfs", "none")
	below := mountOf(t, point)
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	run(t, "mount", "-t", "tmpfs", "none", point)
	if id, err := here.OfMount(below, point); err == nil {
		t.Fatalf("got the identity of the mount above: %s", id)
	}
}

func TestOfDirectory(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "a")
	seen := map[string]bool{}
	for range 3 {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		id, err := here.OfDirectory(path)
		if err != nil {
			t.Fatal(err)
		}
		if s := id.Scheme(); s != "dir" && s != "weakdir" {
			t.Fatalf("identity is %s", id)
		}
		if id.Scheme() == "dir" && seen[string(id)] {
			t.Fatalf("%s for a directory that was created again", id)
		}
		seen[string(id)] = true
		write(t, filepath.Join(path, "data"), "x")
		if again, err := here.OfDirectory(path); err != nil || again != id {
			t.Fatalf("%s after writing, %v; was %s", again, err, id)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := here.OfDirectory(path); err == nil {
		t.Fatal("a directory that is gone has an identity")
	}
	if err := os.Symlink(parent, path); err != nil {
		t.Fatal(err)
	}
	if _, err := here.OfDirectory(path); err == nil {
		t.Fatal("a symlink has the identity of a directory")
	}
}

func TestIdentityErrors(t *testing.T) {
	// A pipe has neither UUID nor folder, and opening it must not block.
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Skip("needs mkfifo")
	}
	if id, err := here.OfDirectory(pipe); err == nil {
		t.Fatalf("a pipe is %s", id)
	}
	if id, err := here.OfDirectory("/proc"); err != nil || id.Scheme() != "weakdir" {
		t.Fatalf("/proc, which has no UUID, is %s, %v", id, err)
	}
}
