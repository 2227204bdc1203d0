// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/test/integration/node"
)

// waitMark waits until the volume of a slot of class Files has this mark.
func waitMark(n *node.Node, name, mark string) {
	n.WaitVolume(n.Files, name, "marked "+mark, func(v *corev1.PersistentVolume) bool {
		return v != nil && v.Annotations[wellknown.DiskAnnotation] == mark
	})
}

// TestPodOfALostDisk: no pod is placed with a claim whose disk is missing or another one, and its
// condition has the reason. When the disk is back it is placed, with its data.
func TestPodOfALostDisk(t *testing.T) {
	n := newNode(t)
	slots(n, "missing", "replaced")
	n.Start()
	missing, replaced := used(n, "missing"), used(n, "replaced")
	first := n.Env.CreatePod(n.Env.Pod("first").PVC(replaced.Name))
	n.Env.WaitScheduled(first)
	n.Env.DeletePod(first)

	n.Unmount(n.PathOf(n.Files, "missing"))
	replace(t, n, "replaced")
	waitMark(n, "missing", "Missing")
	waitMark(n, "replaced", "Replaced")
	ofMissing := n.Env.CreatePod(n.Env.Pod("of-missing").PVC(missing.Name))
	ofReplaced := n.Env.CreatePod(n.Env.Pod("of-replaced").PVC(replaced.Name))
	n.Env.WaitUnschedulable(ofMissing, match.DiskMissing.String())
	n.Env.WaitUnschedulable(ofReplaced, match.DiskReplaced.String())

	remount(n, "missing")
	n.Unmount(n.PathOf(n.Files, "replaced"))
	remount(n, "replaced")
	n.Env.WaitScheduled(ofMissing)
	n.Env.WaitScheduled(ofReplaced)
	for _, name := range []string{"missing", "replaced"} {
		waitMark(n, name, "")
		untouched(t, n.PathOf(n.Files, name))
	}
}

// TestBlankDiskAccepted: an administrator accepts a new disk instead of a claim's lost one.
func TestBlankDiskAccepted(t *testing.T) {
	n := newNode(t)
	slots(n, "replaced")
	n.Start()
	volume := used(n, "replaced")
	replace(t, n, "replaced")
	waitMark(n, "replaced", "Replaced")
	pod := n.Env.CreatePod(n.Env.Pod("pod").PVC(volume.Name))
	n.Env.WaitUnschedulable(pod, match.DiskReplaced.String())

	entry := n.WaitEntry(n.Files, "replaced", stowage.EntryReplaced, "Replaced")
	annotate(t, n, volume, wellknown.SameDiskAnnotation, entry.Identity)
	n.Env.WaitScheduled(pod)
	n.WaitVolume(n.Files, "replaced", "of the disk that was accepted", func(v *corev1.PersistentVolume) bool {
		return v.UID == volume.UID && v.Annotations[wellknown.DiskIdentityAnnotation] == entry.Identity
	})
}
