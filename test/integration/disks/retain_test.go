// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/test/integration/node"
)

// TestRetained: the data of a volume of policy Retain is never wiped. When the volume
// is deleted, its disk waits until it is empty, or its data acknowledged.
func TestRetained(t *testing.T) {
	n := newNode(t)
	kept := n.AddClass("kept", nil)
	n.Env.CreateClass(n.Env.Class(kept).ReclaimPolicy(corev1.PersistentVolumeReclaimRetain))
	volumes := map[string]*corev1.PersistentVolume{}
	names := []string{"emptied", "acknowledged", "left"}
	for _, name := range names {
		image := n.Image(name+".ext4", "16M")
		n.Command("mkfs.ext4", "-q", image)
		n.MountAt(image, n.PathOf(kept, name))
	}
	n.Start()
	for _, name := range names {
		volumes[name] = n.Claim(kept, name)
		keep(t, n.PathOf(kept, name))
		n.Release(volumes[name])
		n.WaitEntry(kept, name, stowage.EntryReleased, "")
	}
	fence(n, "1")
	for _, name := range names {
		untouched(t, n.PathOf(kept, name))
		n.Delete(volumes[name])
		n.WaitEntry(kept, name, stowage.EntryRetained, "RetainedDirty")
		n.WaitNone(kept, name)
	}
	remove(t, n.PathOf(kept, "emptied")+"/secret")
	entry := n.WaitEntry(kept, "acknowledged", stowage.EntryRetained, "RetainedDirty")
	acknowledge(n, "other/disk, "+entry.Acknowledgement)
	for _, name := range []string{"emptied", "acknowledged"} {
		again := n.WaitPhase(kept, name, corev1.VolumeAvailable)
		if again.Name == volumes[name].Name {
			t.Errorf("%s: the next volume is called %s again", name, again.Name)
		}
	}
	untouched(t, n.PathOf(kept, "acknowledged"))
	untouched(t, n.PathOf(kept, "left"))
	n.Kill()
	n.Start()
	n.WaitEntry(kept, "left", stowage.EntryRetained, "RetainedDirty")
	untouched(t, n.PathOf(kept, "left"))
}

// acknowledge annotates the node's report.
func acknowledge(n *node.Node, text string) {
	if err := n.AnnotateReport(n.Env.Context(), wellknown.PublishRetainedAnnotation, text); err != nil {
		n.Env.T.Fatal(err)
	}
}

// TestRetainedByChoice: the reclaim policy of the volume applies, as it is when it is released.
func TestRetainedByChoice(t *testing.T) {
	n := newNode(t)
	slots(n, "disk")
	n.Start()
	volume := used(n, "disk")
	n.SetPolicy(volume, corev1.PersistentVolumeReclaimRetain)
	n.Release(volume)
	n.WaitEntry(n.Files, "disk", stowage.EntryReleased, "")
	fence(n, "1")
	untouched(t, n.PathOf(n.Files, "disk"))
	n.SetPolicy(volume, corev1.PersistentVolumeReclaimDelete)
	n.WaitRepublished(n.Files, "disk", volume)
	emptied(t, n, "disk")
}

// TestRecycle: local volumes do not support Recycle, and the report shows it.
func TestRecycle(t *testing.T) {
	n := newNode(t)
	slots(n, "disk")
	n.Start()
	volume := used(n, "disk")
	n.SetPolicy(volume, corev1.PersistentVolumeReclaimRecycle)
	n.Release(volume)
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeUnsupportedReclaimPolicy")
	fence(n, "1")
	untouched(t, n.PathOf(n.Files, "disk"))
	if now := n.Volume(n.Files, "disk"); now == nil || now.UID != volume.UID || now.DeletionTimestamp != nil {
		t.Error("a volume of policy Recycle has not stayed")
	}
}

// TestFailed: a volume that the PersistentVolume controller has marked Failed is left
// alone until it is deleted.
func TestFailed(t *testing.T) {
	n := newNode(t)
	slots(n, "disk")
	n.Start()
	volume := used(n, "disk")
	n.Stop()
	n.Release(volume)
	n.Patch(volume, `{"status":{"phase":"Failed"}}`, "status")
	n.Start()
	n.WaitEntry(n.Files, "disk", stowage.EntryFailed, "PhaseFailed")
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "PhaseFailed")
	fence(n, "1")
	untouched(t, n.PathOf(n.Files, "disk"))
	n.Delete(volume)
	n.WaitRepublished(n.Files, "disk", volume)
	emptied(t, n, "disk")
}
