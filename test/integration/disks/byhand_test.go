// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"

	"stowage.dev/stowage/test/integration/node"
)

// TestDeletedByHand: a volume that an administrator deletes is cleaned, and its disk
// published again.
func TestDeletedByHand(t *testing.T) {
	n := newNode(t)
	slots(n, "free", "released")
	n.Start()
	free := n.WaitPhase(n.Files, "free", corev1.VolumeAvailable)
	n.Write("free", "by-hand", "whatever")
	n.Delete(free)
	n.WaitRepublished(n.Files, "free", free)
	emptied(t, n, "free")

	released := used(n, "released")
	n.Stop()
	n.Release(released)
	n.Delete(released)
	untouched(t, n.PathOf(n.Files, "released"))
	n.Start()
	n.WaitRepublished(n.Files, "released", released)
	emptied(t, n, "released")
}

// TestStripped: the data of a Bound volume that is deleted by force is kept until an
// administrator acknowledges it. The disk of a Released one is cleaned once the controller
// allows it. Either is published under another name: a claim that lost its volume must not
// find one of that name.
func TestStripped(t *testing.T) {
	n := newNode(t)
	slots(n, "bound", "released", "alone")
	n.Start()
	volumes := map[string]*corev1.PersistentVolume{}
	for _, name := range []string{"bound", "released", "alone"} {
		volumes[name] = used(n, name)
	}
	strip(n, volumes["bound"])
	bound := n.WaitEntry(n.Files, "bound", stowage.EntryRetained, "VolumeVanished")

	// A pod of kubelet's keeps the disk from being cleaned before its volume is deleted.
	pod := n.Path("kubelet/pods/uid-1/volumes/kubernetes.io~local-volume", volumes["released"].Name)
	keepEmpty(t, pod)
	n.Release(volumes["released"])
	n.WaitEntry(n.Files, "released", stowage.EntryReleased, "VolumeInUse")
	n.Stop()
	remove(t, pod)
	strip(n, volumes["released"])
	strip(n, volumes["alone"])
	n.Start()
	alone := n.WaitEntry(n.Files, "alone", stowage.EntryRetained, "VolumeVanished")
	released := n.WaitEntry(n.Files, "released", stowage.EntryCleaning, "OrphanCleanWaits")
	fence(n, "1")
	for name := range volumes {
		untouched(t, n.PathOf(n.Files, name))
	}
	acknowledge(n, bound.Acknowledgement+","+alone.Acknowledgement)
	if err := n.AnnotateReport(n.Env.Context(), wellknown.CleanOrphansAnnotation, released.Acknowledgement); err != nil {
		t.Fatal(err)
	}
	for name, before := range volumes {
		if now := n.WaitRepublished(n.Files, name, before); now.Name == before.Name {
			t.Errorf("%s: the next volume is called %s again", name, now.Name)
		}
	}
	emptied(t, n, "released")
	untouched(t, n.PathOf(n.Files, "bound"))
	untouched(t, n.PathOf(n.Files, "alone"))
	n.Env.WaitPVC(volumes["bound"].Name, "lost", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimLost })
}

// strip deletes a volume and removes its finalizers until it is deleted.
func strip(n *node.Node, volume *corev1.PersistentVolume) {
	n.Delete(volume)
	if err := n.StripFinalizers(n.Env.Context(), volume.Name); err != nil {
		n.Env.T.Fatal(err)
	}
	n.Env.Wait("volume "+volume.Name+" to be deleted", func() bool {
		for _, v := range n.Env.AllPVs() {
			if v.UID == volume.UID {
				return false
			}
		}
		return true
	})
}

// TestFinalizerRestored: a removed finalizer is added again.
func TestFinalizerRestored(t *testing.T) {
	n := newNode(t)
	slots(n, "disk")
	n.Start()
	volume := n.WaitPhase(n.Files, "disk", corev1.VolumeAvailable)
	n.Patch(volume, `{"metadata":{"finalizers":null}}`)
	n.WaitVolume(n.Files, "disk", "guarded again", func(v *corev1.PersistentVolume) bool {
		return v != nil && v.UID == volume.UID && v.ResourceVersion != volume.ResourceVersion && strings.Contains(fmt.Sprint(v.Finalizers), wellknown.LocalVolumeFinalizer)
	})
}

// TestIdentityUnproven: a disk whose identity cannot be proven after a restart of
// the node is neither cleaned nor published until an administrator confirms it.
func TestIdentityUnproven(t *testing.T) {
	n := newNode(t)
	released, bound := n.Device("released", "16M"), n.Device("bound", "16M")
	n.Start()
	volume, other := n.Claim(n.Blocks, "released"), n.Claim(n.Blocks, "bound")
	plant(t, released, planted)
	plant(t, bound, planted)
	n.Stop()
	n.Release(volume)
	restarted(t, n, volume)
	restarted(t, n, other)
	n.Start()

	entry := n.WaitEntry(n.Blocks, "released", stowage.EntryUnproven, "IdentityUnproven")
	n.WaitEntry(n.Blocks, "bound", stowage.EntryUnproven, "IdentityUnproven")
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "IdentityUnproven", "stowage.dev/same-disk="+entry.Identity)
	fence(n, "1")
	if !found(t, released, planted) || !found(t, bound, planted) {
		t.Error("a disk was cleaned that may be another one")
	}
	annotate(t, n, other, wellknown.SameDiskAnnotation, n.WaitEntry(n.Blocks, "bound", stowage.EntryUnproven, "IdentityUnproven").Identity)
	n.WaitEntry(n.Blocks, "bound", stowage.EntryBound, "")
	annotate(t, n, volume, wellknown.SameDiskAnnotation, entry.Identity)
	n.WaitRepublished(n.Blocks, "released", volume)
	if !blank(t, released) {
		t.Error("a device is free that holds data")
	}
	if !found(t, bound, planted) {
		t.Error("a device in use was cleaned")
	}
}

// restarted changes a volume, and the node's record of its disk, to those of another
// boot of the node. The provisioner must not run.
func restarted(t *testing.T, n *node.Node, volume *corev1.PersistentVolume) {
	t.Helper()
	identity := volume.Annotations[wellknown.DiskIdentityAnnotation]
	parts := strings.Split(identity, ":")
	if parts[0] != "weak" {
		t.Fatalf("the identity of a loop device is %s", identity)
	}
	former := strings.Join([]string{parts[0], "00000000-0000-0000-0000-000000000000", parts[2]}, ":")
	annotate(t, n, volume, wellknown.DiskIdentityAnnotation, former)
	records, err := diskrecord.Open(n.Path("state", "disks"), "/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	record, ok, err := records.Get(disk.Identity(identity))
	if err != nil || !ok {
		t.Fatalf("the node has no record of %s: %v", identity, err)
	}
	record.Identity = disk.Identity(former)
	if err := records.Put(record); err != nil {
		t.Fatal(err)
	}
	if err := records.Delete(disk.Identity(identity)); err != nil {
		t.Fatal(err)
	}
}

// annotate writes an annotation of a volume.
func annotate(t *testing.T, n *node.Node, volume *corev1.PersistentVolume, key, value string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		t.Fatal(err)
	}
	n.Patch(volume, string(text))
}
