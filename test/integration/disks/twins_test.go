// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
)

// TestSecondMount: a file system that is mounted at two slots, be they of one class, is
// never offered twice, nor cleaned while it is.
func TestSecondMount(t *testing.T) {
	n := newNode(t)
	other := n.AddClass("other", nil)
	n.Env.CreateClass(n.Env.Class(other).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	slots(n, "used", "free")
	n.Start()
	volume := used(n, "used")
	free := n.WaitPhase(n.Files, "free", corev1.VolumeAvailable)
	for _, name := range []string{"used", "free"} {
		n.Bind(n.PathOf(n.Files, name), n.PathOf(n.Files, name+"-2"))
		n.Bind(n.PathOf(n.Files, name), n.PathOf(other, name))
	}
	n.WaitEntry(n.Files, "used-2", stowage.EntrySkipped, "SameBytes")
	n.WaitEntry(other, "used", stowage.EntrySkipped, "SameBytes")
	n.Release(volume)
	n.WaitEntry(n.Files, "used", stowage.EntryReleased, "VolumeInUse")
	fence(n, "1")
	untouched(t, n.PathOf(n.Files, "used"))
	for _, name := range append(n.Published(n.Files), n.Published(other)...) {
		if strings.HasSuffix(name, "-2") {
			t.Errorf("one disk has a second volume, at %s", name)
		}
	}
	if names := n.Published(other); len(names) > 0 {
		t.Errorf("class %s has volumes of %q", other, names)
	}
	for _, name := range []string{"used", "free"} {
		n.Unmount(n.PathOf(n.Files, name+"-2"))
		n.Unmount(n.PathOf(other, name))
	}
	n.WaitRepublished(n.Files, "used", volume)
	emptied(t, n, "used")
	if now := n.Volume(n.Files, "free"); now == nil || now.UID != free.UID {
		t.Error("the volume that was free has not stayed")
	}
}

// TestPartitions: partitions of a disk are published together, and never with the whole
// disk.
func TestPartitions(t *testing.T) {
	n := newNode(t)
	disk := partitioned(t, n, "disk")
	other := partitioned(t, n, "other")
	n.Link(disk+"p1", n.PathOf(n.Blocks, "part-1"))
	n.Link(other+"p2", n.PathOf(n.Blocks, "other-2"))
	n.Start()
	n.WaitPhase(n.Blocks, "part-1", corev1.VolumeAvailable)
	volume := n.Claim(n.Blocks, "other-2")
	n.Link(disk, n.PathOf(n.Files, "whole"))
	n.Link(disk+"p2", n.PathOf(n.Files, "part-2"))
	n.Link(other, n.PathOf(n.Blocks, "other"))
	n.WaitEntry(n.Files, "whole", stowage.EntrySkipped, "InUse")
	n.WaitEntry(n.Blocks, "other", stowage.EntrySkipped, "InUse")
	n.WaitPhase(n.Files, "part-2", corev1.VolumeAvailable)

	plant(t, other+"p1", planted)
	plant(t, other+"p2", planted)
	n.Release(volume)
	n.WaitRepublished(n.Blocks, "other-2", volume)
	if !blank(t, other+"p2") {
		t.Error("a partition is free that holds data")
	}
	if !found(t, other+"p1", planted) {
		t.Error("the partition beside the volume's was cleaned")
	}
}

// partitioned attaches a disk with two partitions of 16 MiB.
func partitioned(t *testing.T, n *node.Node, name string) string {
	t.Helper()
	const sectors = 16 << 20 / 512
	table := make([]byte, 512)
	for i := range 2 {
		entry := table[446+16*i:]
		entry[4] = 0x83
		binary.LittleEndian.PutUint32(entry[8:], uint32(2048+i*sectors))
		binary.LittleEndian.PutUint32(entry[12:], sectors)
	}
	table[510], table[511] = 0x55, 0xaa
	image := n.Image(name+".raw", "34M")
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(table); err != nil {
		t.Fatal(err)
	}
	device := n.Attach(image)
	n.Command("partx", "--update", device)
	// They remain after the device is detached, and would conflict with the next one's.
	t.Cleanup(func() { n.Command("partx", "--delete", device) })
	if _, err := os.Stat(device + "p2"); err != nil {
		t.Skipf("partitions of loop devices do not show here: %v", err)
	}
	return device
}

// TestHolder: a device that device mapper holds is not published, and the one that device
// mapper makes of it is.
func TestHolder(t *testing.T) {
	n := newNode(t)
	if err := exec.Command("dmsetup", "version").Run(); err != nil {
		t.Skipf("device mapper is not available: %v", err)
	}
	device := n.Device("below", "16M")
	mapped := n.Name + "-mapped"
	n.Command("dmsetup", "create", mapped, "--table", "0 32768 linear "+device+" 0")
	t.Cleanup(func() { n.Command("dmsetup", "remove", "--retry", mapped) })
	n.Link("/dev/mapper/"+mapped, n.PathOf(n.Blocks, "above"))
	n.Start()
	n.WaitEntry(n.Blocks, "below", stowage.EntrySkipped, "InUse")
	volume := n.Claim(n.Blocks, "above")
	plant(t, "/dev/mapper/"+mapped, planted)
	n.Release(volume)
	n.WaitRepublished(n.Blocks, "above", volume)
	if !blank(t, device) {
		t.Error("a device is free that holds data")
	}
}
