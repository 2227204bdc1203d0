// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
)

// silent mounts a FUSE file system at a path whose server never answers. hangUp ends
// it, and unblocks its callers.
func silent(t *testing.T, fsType, source, path string) (hangUp func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("FUSE is not available: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	open := true
	hangUp = func() {
		if open {
			open = false
			_ = unix.Close(fd)
		}
	}
	t.Cleanup(hangUp)
	keepEmpty(t, path)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if fsType == "fuseblk" {
		options += ",blksize=512"
	}
	if err := unix.Mount(source, path, fsType, 0, options); err != nil {
		t.Skipf("mount %s: %v", fsType, err)
	}
	return hangUp
}

// TestBrokenEntries: entries that are no disks, or do not answer, stop none of the
// others.
func TestBrokenEntries(t *testing.T) {
	n := newNode(t)
	n.Configure(func(data map[string]any) { data["probeTimeout"] = "1s" })
	n.Mount("good", "32M")
	strangers(t, n)
	hangUp := silent(t, "fuseblk", n.Attach(n.Image("ntfs.raw", "16M")), n.PathOf(n.Files, "hangs"))
	silent(t, "fuse.sshfs", "host:/export", n.PathOf(n.Files, "remote"))
	n.Start()

	volume := used(n, "good")
	n.WaitEntry(n.Files, "hangs", stowage.EntrySkipped, "TimedOut")
	for name, reason := range map[string]string{
		"pipe": "SpecialFile", "text": "SpecialFile", "null": "SpecialFile", "remote": "UnsupportedFilesystem", "shm": "OutsideDirectory", "etc": "OutsideDirectory", "\xff\n": "SpecialFile",
	} {
		if name == "\xff\n" {
			name = "\ufffd\n" // as a report can hold it
		}
		n.WaitEntry(n.Files, name, stowage.EntrySkipped, reason)
	}
	n.Mount("later", "32M")
	n.WaitPhase(n.Files, "later", corev1.VolumeAvailable)
	n.Release(volume)
	n.WaitRepublished(n.Files, "good", volume)
	emptied(t, n, "good")
	hangUp()
	n.WaitEntry(n.Files, "hangs", stowage.EntrySkipped, "IOError")
}

// strangers creates entries that are no disks in the directory of class Files.
func strangers(t *testing.T, n *node.Node) {
	t.Helper()
	for _, name := range []string{"text", "\xff\n"} {
		if err := os.WriteFile(n.PathOf(n.Files, name), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(n.PathOf(n.Files, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Link("/dev/null", n.PathOf(n.Files, "null"))
	n.Link("/dev/shm", n.PathOf(n.Files, "shm"))
	n.Link("/etc", n.PathOf(n.Files, "etc"))
	n.Link("nowhere", n.PathOf(n.Files, "dangling"))
	n.Link("loop", n.PathOf(n.Files, "loop"))
}

// TestDiskHangsLater: a volume whose disk does not answer any more stays, whether
// or not it has a claim, and the others are cleaned.
func TestDiskHangsLater(t *testing.T) {
	n := newNode(t)
	n.Configure(func(data map[string]any) { data["probeTimeout"] = "1s" })
	n.Mount("free", "32M")
	n.Mount("used", "32M")
	n.Start()
	free := n.WaitPhase(n.Files, "free", corev1.VolumeAvailable)
	volume := used(n, "used")
	silent(t, "fuseblk", n.Attach(n.Image("free-ntfs.raw", "16M")), n.PathOf(n.Files, "free"))
	silent(t, "fuseblk", n.Attach(n.Image("used-ntfs.raw", "16M")), n.PathOf(n.Files, "used"))
	n.WaitEntry(n.Files, "used", stowage.EntryBound, "TimedOut")
	n.WaitEntry(n.Files, "free", stowage.EntryAvailable, "TimedOut")
	n.Release(volume)
	fence(n, "1")
	for name, before := range map[string]*corev1.PersistentVolume{"free": free, "used": volume} {
		if now := n.Volume(n.Files, name); now == nil || now.UID != before.UID || now.DeletionTimestamp != nil {
			t.Errorf("the volume of %s has not stayed", name)
		}
	}
}
