// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/test/integration/node"
)

// slots mounts a file system at each of some slots of class Files.
func slots(n *node.Node, names ...string) {
	for _, name := range names {
		n.Mount(name, "32M")
	}
}

// replace mounts another file system, with data, at the path of a slot.
func replace(t *testing.T, n *node.Node, name string) {
	t.Helper()
	image := n.Image(name+"-other.ext4", "16M")
	n.Command("mkfs.ext4", "-q", image)
	n.Unmount(n.PathOf(n.Files, name))
	n.MountAt(image, n.PathOf(n.Files, name))
}

// remount mounts a slot's own file system again.
func remount(n *node.Node, name string) {
	n.MountAt(n.Path("images", name+".ext4"), n.PathOf(n.Files, name))
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// grow makes the file behind a device larger, and the device too.
func grow(n *node.Node, name, device, size string) {
	n.Command("truncate", "--size="+size, n.Path("images", name+".raw"))
	n.Command("losetup", "--set-capacity", device)
}

// TestFreeVolumesFollowTheirDisks: a volume without a claim is deleted with its disk.
func TestFreeVolumesFollowTheirDisks(t *testing.T) {
	n := newNode(t)
	slots(n, "gone", "unmounted", "replaced", "remounted")
	grown := n.Device("grown", "16M")
	n.Device("unlinked", "16M")
	n.Start()
	before := map[string]*corev1.PersistentVolume{}
	for _, name := range []string{"gone", "unmounted", "replaced", "remounted"} {
		before[name] = n.WaitPhase(n.Files, name, corev1.VolumeAvailable)
	}
	small := n.WaitPhase(n.Blocks, "grown", corev1.VolumeAvailable)
	n.WaitPhase(n.Blocks, "unlinked", corev1.VolumeAvailable)

	n.Unmount(n.PathOf(n.Files, "gone"))
	remove(t, n.PathOf(n.Files, "gone"))
	n.Unmount(n.PathOf(n.Files, "unmounted"))
	replace(t, n, "replaced")
	n.Unmount(n.PathOf(n.Files, "remounted"))
	remount(n, "remounted")
	grow(n, "grown", grown, "24M")
	remove(t, n.PathOf(n.Blocks, "unlinked"))

	n.WaitNone(n.Files, "gone")
	n.WaitNone(n.Files, "unmounted")
	n.WaitEntry(n.Files, "unmounted", stowage.EntrySkipped, "MountMissing")
	n.WaitNone(n.Blocks, "unlinked")
	large := n.WaitRepublished(n.Blocks, "grown", small)
	if got := large.Spec.Capacity.Storage().Value(); got != 24<<20 {
		t.Errorf("a disk that has grown to 24 MiB is published with %d bytes", got)
	}
	other := n.WaitRepublished(n.Files, "replaced", before["replaced"])
	if other.Annotations[wellknown.DiskIdentityAnnotation] == before["replaced"].Annotations[wellknown.DiskIdentityAnnotation] || other.Name == before["replaced"].Name {
		t.Errorf("another disk is published as %s was: as %s", before["replaced"].Name, other.Name)
	}
	back := n.WaitPhase(n.Files, "remounted", corev1.VolumeAvailable)
	if want := before["remounted"].Annotations[wellknown.DiskIdentityAnnotation]; back.Annotations[wellknown.DiskIdentityAnnotation] != want {
		t.Errorf("a disk that was mounted again is %s, and was %s", back.Annotations[wellknown.DiskIdentityAnnotation], want)
	}
	remount(n, "unmounted")
	n.WaitPhase(n.Files, "unmounted", corev1.VolumeAvailable)
}

// TestUsedVolumesStay: a volume that has a claim stays in any state of its disk,
// and is marked.
func TestUsedVolumesStay(t *testing.T) {
	n := newNode(t)
	slots(n, "gone", "replaced")
	keep(t, n.PathOf(n.Files, "unmounted"))
	slots(n, "unmounted")
	grown := n.Device("grown", "16M")
	n.Start()
	gone, unmounted, replaced := used(n, "gone"), used(n, "unmounted"), used(n, "replaced")
	small := n.Claim(n.Blocks, "grown")

	n.Unmount(n.PathOf(n.Files, "gone"))
	remove(t, n.PathOf(n.Files, "gone"))
	n.Unmount(n.PathOf(n.Files, "unmounted"))
	replace(t, n, "replaced")
	keep(t, n.PathOf(n.Files, "replaced"))
	grow(n, "grown", grown, "24M")

	n.WaitEntry(n.Files, "gone", stowage.EntryMissing, "Missing")
	n.Env.WaitEvent(metav1.NamespaceDefault, gone.Name, "Missing")
	n.WaitEntry(n.Files, "unmounted", stowage.EntryMissing, "Missing")
	n.Env.WaitEvent(metav1.NamespaceDefault, unmounted.Name, "Missing")
	n.WaitEntry(n.Files, "replaced", stowage.EntryReplaced, "Replaced")
	n.Env.WaitEvent(metav1.NamespaceDefault, replaced.Name, "Replaced")
	n.WaitEntry(n.Blocks, "grown", stowage.EntryBound, "Grown")
	n.Env.WaitEvent(metav1.NamespaceDefault, small.Name, "Grown")

	n.Release(replaced)
	n.Release(unmounted)
	fence(n, "1")
	untouched(t, n.PathOf(n.Files, "replaced"))
	untouched(t, n.PathOf(n.Files, "unmounted")) // the directory beneath
	for name, volume := range map[string]*corev1.PersistentVolume{"gone": gone, "unmounted": unmounted, "replaced": replaced} {
		if now := n.Volume(n.Files, name); now == nil || now.UID != volume.UID {
			t.Errorf("the volume of %s has not stayed", name)
		}
	}

	remount(n, "unmounted")
	n.WaitRepublished(n.Files, "unmounted", unmounted)
	emptied(t, n, "unmounted")
	n.Unmount(n.PathOf(n.Files, "replaced"))
	remount(n, "replaced")
	n.WaitRepublished(n.Files, "replaced", replaced)
	emptied(t, n, "replaced")
	remount(n, "gone")
	n.WaitEntry(n.Files, "gone", stowage.EntryBound, "")
	untouched(t, n.PathOf(n.Files, "gone"))
}

// TestGoneForGood: a released volume whose disk never returns is removed when it is
// deleted, and the disk now at its path is not cleaned for it.
func TestGoneForGood(t *testing.T) {
	n := newNode(t)
	slots(n, "gone", "replaced")
	n.Start()
	gone, replaced := used(n, "gone"), used(n, "replaced")
	n.Unmount(n.PathOf(n.Files, "gone"))
	replace(t, n, "replaced")
	keep(t, n.PathOf(n.Files, "replaced"))
	n.WaitEntry(n.Files, "gone", stowage.EntryMissing, "Missing")
	n.WaitEntry(n.Files, "replaced", stowage.EntryReplaced, "Replaced")
	for name, volume := range map[string]*corev1.PersistentVolume{"gone": gone, "replaced": replaced} {
		n.Release(volume)
		n.Delete(volume)
		n.WaitNone(n.Files, name)
	}
	n.WaitEntry(n.Files, "replaced", stowage.EntrySkipped, "NotEmpty")
	untouched(t, n.PathOf(n.Files, "replaced"))
	n.WaitReport("with a tombstone of each disk", func(r *stowage.LocalDiskReport) bool { return len(r.Status.Tombstones) == 2 })

	remount(n, "gone") // dirty, and of no volume
	again := n.WaitPhase(n.Files, "gone", corev1.VolumeAvailable)
	if again.Name == gone.Name {
		t.Errorf("the next volume is called %s again", again.Name)
	}
	emptied(t, n, "gone")
}

// TestMovedDisk: a disk at another path than its volume's is not published twice.
func TestMovedDisk(t *testing.T) {
	n := newNode(t)
	n.Device("free", "16M")
	n.Device("used", "16M")
	n.Start()
	n.WaitPhase(n.Blocks, "free", corev1.VolumeAvailable)
	volume := n.Claim(n.Blocks, "used")
	for _, name := range []string{"free", "used"} {
		if err := os.Rename(n.PathOf(n.Blocks, name), n.PathOf(n.Blocks, name+"-moved")); err != nil {
			t.Fatal(err)
		}
	}
	n.WaitEntry(n.Blocks, "used", stowage.EntryMissing, "Missing")
	n.WaitEntry(n.Blocks, "used-moved", stowage.EntrySkipped, "SameBytes")
	n.WaitNone(n.Blocks, "free")
	n.WaitPhase(n.Blocks, "free-moved", corev1.VolumeAvailable)
	fence(n, "1")
	if moved := n.Volume(n.Blocks, "used-moved"); moved != nil {
		t.Errorf("a disk that volume %s offers is offered by %s too", volume.Name, moved.Name)
	}
	if err := os.Rename(n.PathOf(n.Blocks, "used-moved"), n.PathOf(n.Blocks, "used")); err != nil {
		t.Fatal(err)
	}
	n.WaitEntry(n.Blocks, "used", stowage.EntryBound, "")
}
