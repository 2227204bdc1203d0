// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestForgedIdentity: a compromised node marks its own volume with the identity of a lost node's
// disk, and reports that disk as missing. A tombstone would wipe the
// disk at the node to which it is moved to rescue the data that a claim waits for.
func TestForgedIdentity(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Keep", "1s"), "a")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	s.lose("a")
	s.WaitEvent(s.Namespace, "data-db-0", "VolumeLost", "Keep")

	s.AddNodes(s.Node("b"))
	forged := s.volumeOf("b", "disk1", before.pv.Annotations[wellknown.DiskIdentityAnnotation], corev1.PersistentVolumeReclaimDelete)
	s.provisionerPod("b")
	s.report(forged, stowage.EntryMissing)
	s.WaitEvent(metav1.NamespaceDefault, forged.Name, "VolumeLost", before.pv.Name, s.Name("a"), "kubectl stowage release")
	if tombstones := s.tombstonesOf(s.Name("b")); len(tombstones) > 0 {
		t.Errorf("tombstones %+v, want none", tombstones)
	}

	// Without a claim on the disk, the volume is removed as others are.
	if err := s.Client.CoreV1().PersistentVolumes().Delete(s.Context(), before.pv.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Client.CoreV1().PersistentVolumes().Patch(s.Context(), before.pv.Name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	s.Wait("the volume to be deleted", func() bool {
		v := s.seen(forged)
		return v != nil && v.DeletionTimestamp != nil
	})
}

// TestForgedVolumes: of lost disks, created by another node. A tombstone is removed when the
// node's report has the disk with the volume, and one that retains data not even then.
func TestForgedVolumes(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "1s"), "a")
	const identity = wellknown.DiskIdentityAnnotation
	shown, forged := s.SeenPVs()[0], s.volume("a", "disk2", corev1.PersistentVolumeReclaimDelete)
	kept := s.volume("a", "disk3", corev1.PersistentVolumeReclaimRetain)
	s.lose("a")
	s.waitGone(shown, stowage.TombstonePublished)
	s.waitGone(forged, stowage.TombstonePublished)
	s.waitGone(kept, stowage.TombstoneRetained)

	s.AddNodes(s.Node("b"), s.Node("c"))
	s.volumeOf("b", "disk2", forged.Annotations[identity], corev1.PersistentVolumeReclaimDelete)
	s.report(s.volumeOf("c", "disk1", kept.Annotations[identity], corev1.PersistentVolumeReclaimDelete), stowage.EntryAvailable)
	s.report(s.volumeOf("b", "disk1", shown.Annotations[identity], corev1.PersistentVolumeReclaimDelete), stowage.EntryAvailable)
	var left []string
	s.waitTombstones(s.Name("a"), func(tombstones []stowage.LocalDiskTombstone) bool {
		left = nil
		for _, t := range tombstones {
			left = append(left, t.Spec.Identity)
		}
		return !slices.Contains(left, shown.Annotations[identity])
	})
	slices.Sort(left)
	if want := []string{forged.Annotations[identity], kept.Annotations[identity]}; !slices.Equal(left, want) {
		t.Errorf("tombstones of %q are left, want of %q", left, want)
	}
}
