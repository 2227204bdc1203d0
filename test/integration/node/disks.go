// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Image makes a file of this size ("64M"), as the backing of a disk, and returns its
// path.
func (n *Node) Image(name, size string) string {
	n.t.Helper()
	image := n.Path("images", name)
	n.Command("truncate", "--size="+size, image)
	return image
}

// Mount mounts a new ext4 of this size as a slot of class Files, and returns its
// path.
func (n *Node) Mount(name, size string) string {
	n.t.Helper()
	image := n.Image(name+".ext4", size)
	n.Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
	path := n.PathOf(n.Files, name)
	n.MountAt(image, path)
	return path
}

// MountAt mounts an image with a file system at a path, which is created if it does not exist.
func (n *Node) MountAt(image, path string) {
	n.t.Helper()
	n.mount(path, "-o", "loop", image)
}

// Tmpfs mounts a file system in memory as a slot of class Files.
func (n *Node) Tmpfs(name, size string) string {
	n.t.Helper()
	path := n.PathOf(n.Files, name)
	n.TmpfsAt(path, size)
	return path
}

// TmpfsAt mounts a file system in memory at a path, which is created if it does not exist.
func (n *Node) TmpfsAt(path, size string) {
	n.t.Helper()
	n.mount(path, "-t", "tmpfs", "-o", "size="+size, "tmpfs")
}

// Bind mounts one path at another.
func (n *Node) Bind(from, to string) {
	n.t.Helper()
	n.mount(to, "--bind", from)
}

// mount runs mount(8) for a path, which is created if it does not exist and unmounted after the
// test if it is still mounted.
func (n *Node) mount(path string, args ...string) {
	n.t.Helper()
	n.do(os.MkdirAll(path, 0o755))
	n.Command("mount", append(args, path)...)
	n.t.Cleanup(func() {
		for {
			err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, unix.EBUSY) {
				err = unix.Unmount(path, unix.MNT_DETACH)
			}
			if err != nil {
				return
			}
		}
	})
}

// Unmount unmounts a path.
func (n *Node) Unmount(path string) {
	n.t.Helper()
	n.do(os.NewSyscallError("unmount "+path, unix.Unmount(path, unix.UMOUNT_NOFOLLOW)))
}

// Attach attaches a file to a loop device, and returns its node.
func (n *Node) Attach(image string) string {
	n.t.Helper()
	device := strings.TrimSpace(n.Command("losetup", "--find", "--show", image))
	n.t.Cleanup(func() { n.detach(device, image) })
	return device
}

// detach detaches a loop device, unless another file is attached to it.
func (n *Node) detach(device, image string) {
	file, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
	if err != nil || strings.TrimSuffix(strings.TrimSpace(string(file)), " (deleted)") != image {
		return
	}
	if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
		n.t.Errorf("detach %s: %v %s", device, err, out)
	}
}

// Detach detaches a loop device.
func (n *Node) Detach(device string) {
	n.t.Helper()
	n.Command("losetup", "--detach", device)
}

// Device attaches a new file of this size to a loop device, and links it as a slot
// of class Blocks. It returns the device's node.
func (n *Node) Device(name, size string) string {
	n.t.Helper()
	device := n.Attach(n.Image(name+".raw", size))
	n.Link(device, n.PathOf(n.Blocks, name))
	return device
}

// Link makes a symlink.
func (n *Node) Link(to, path string) {
	n.t.Helper()
	n.do(os.Symlink(to, path))
}

// Command runs a program and returns its output. If the program is not installed, the test is
// skipped.
func (n *Node) Command(name string, args ...string) string {
	n.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		n.t.Skipf("%s is not installed", name)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
