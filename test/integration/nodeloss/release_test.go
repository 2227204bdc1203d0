// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestStatefulSetRecovers: a StatefulSet recovers from the deletion of its node, without any
// manual action.
func TestStatefulSetRecovers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		class, claim map[string]string
	}{
		"by its class": {class: asks("Release", "2s")},
		"by the claim's annotation, against its class": {class: asks("Keep", "1h"), claim: asks("Release", "2s")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, fixture.New(t), tc.class, "a", "b")
			s.set("db", 1, func(set *appsv1.StatefulSet) { set.Spec.VolumeClaimTemplates[0].Annotations = tc.claim })
			before := s.waitPlaced("db-0", "data-db-0", nil)
			s.lose(before.node(s))
			after := s.waitPlaced("db-0", "data-db-0", before)
			if after.pod.Spec.NodeName == before.pod.Spec.NodeName {
				t.Errorf("the pod runs on %s, which is deleted", after.pod.Spec.NodeName)
			}
			s.waitGone(before.pv, stowage.TombstonePublished)
			s.WaitEvent(s.Namespace, "data-db-0", "VolumeLost", "is gone", "will be deleted")
			s.WaitEvent(s.Namespace, "data-db-0", "ReleasingClaim", before.pv.Name)
			s.WaitEvent(s.Namespace, "data-db-0", "ClaimReleased", before.pv.Name)
			s.WaitEvent(s.Namespace, "db-0", "ReleasingClaim", before.pv.Name)
			s.WaitEvent(s.Namespace, "db-0", "ClaimReleased", before.pv.Name)
			s.WaitEvent(metav1.NamespaceDefault, before.pv.Name, "VolumeRemoved", "tombstone")
		})
	}
}

// TestPodAlreadyWaits: pod GC was quicker than the delay, so that a pod was made for
// the old claim. It waits until the delay is cut short, which holds for losses before.
func TestPodAlreadyWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "1h"), "a", "b")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	s.lose(before.node(s))
	s.DeletePod(before.pod)
	s.Wait("a pod that waits for the old volume", func() bool {
		p := s.SeenPod("db-0")
		return p != nil && p.UID != before.pod.UID && p.Spec.NodeName == ""
	})
	s.delay("1s")
	s.waitPlaced("db-0", "data-db-0", before)
	s.waitGone(before.pv, stowage.TombstonePublished)
}

// TestEphemeral: the claim belongs to the pod, which a StatefulSet recreates.
func TestEphemeral(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "2s"), "a", "b")
	s.set("cache", 1, func(set *appsv1.StatefulSet) {
		template := set.Spec.VolumeClaimTemplates[0]
		set.Spec.VolumeClaimTemplates = nil
		set.Spec.Template.Spec = s.Pod("x").Ephemeral("scratch", &template).Obj().Spec
	})
	before := s.waitPlaced("cache-0", "cache-0-scratch", nil)
	s.lose(before.node(s))
	s.waitPlaced("cache-0", "cache-0-scratch", before)
	s.waitGone(before.pv, stowage.TombstonePublished)
}

// TestOperator: claim and pod are created by an operator, according to the claim's annotation,
// or its owner. The operator recreates both.
func TestOperator(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(claim *builders.PVC, owner metav1.OwnerReference){
		"by its annotation": func(claim *builders.PVC, _ metav1.OwnerReference) {
			claim.Annotation(wellknown.NodeLossRecreatableAnnotation, "true")
		},
		"by its owner": func(claim *builders.PVC, owner metav1.OwnerReference) {
			claim.Change(func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{owner} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, fixture.New(t), asks("Release", "2s"), "a", "b")
			owner := s.operated()
			operate := func() {
				claim := s.PVC("db-1").Class(s.class).Request("1Mi")
				change(claim, owner)
				s.CreatePVC(claim)
				pod := s.Pod("db-1").PVC("db-1").Obj()
				owner.Controller = new(true)
				pod.OwnerReferences = []metav1.OwnerReference{owner}
				s.CreatePodObject(pod)
			}
			operate()
			before := s.waitPlaced("db-1", "db-1", nil)
			s.lose(before.node(s))
			s.Wait("pod and claim to be deleted", func() bool { return s.SeenPod("db-1") == nil && s.SeenPVC("db-1") == nil })
			operate()
			s.waitPlaced("db-1", "db-1", before)
			s.waitGone(before.pv, stowage.TombstonePublished)
			s.WaitEvent(s.Namespace, "db-1", "ClaimReleased", before.pv.Name)
		})
	}
}

// operated is a reference to an object that owns claims: of an existing kind, which the
// controller's configuration lists.
func (s *site) operated() metav1.OwnerReference {
	s.T.Helper()
	name := s.Name("operated")
	made, err := s.reports.Create(s.Context(), &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: stowage.LocalDiskReportSpec{NodeName: name, Page: 1},
	}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return metav1.OwnerReference{APIVersion: stowage.SchemeGroupVersion.String(), Kind: "LocalDiskReport", Name: name, UID: made.UID}
}

// TestOutOfService: the node exists, not Ready, with the taint. Its pod is deleted, and so is the
// volume, whose finalizer no provisioner removes.
func TestOutOfService(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "2s"), "a", "b")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	s.fail(before.node(s))
	s.PatchNode(before.node(s), map[string]any{"spec": map[string]any{"taints": []map[string]any{
		{"key": corev1.TaintNodeOutOfService, "value": "nodeshutdown", "effect": "NoExecute"},
	}}})
	after := s.waitPlaced("db-0", "data-db-0", before)
	if after.pod.Spec.NodeName == before.pod.Spec.NodeName {
		t.Errorf("the pod is on %s again", after.pod.Spec.NodeName)
	}
	s.waitGone(before.pv, stowage.TombstonePublished)
}

// TestDiskLost: the node exists, and its provisioner reports the disk as missing, or failing. The
// volume is deleted, and the provisioner removes its finalizer.
func TestDiskLost(t *testing.T) {
	t.Parallel()
	for _, state := range []stowage.EntryState{stowage.EntryMissing, stowage.EntryReplaced, stowage.EntryFailing} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, fixture.New(t), asks("Release", "2s"), "a", "b")
			s.set("db", 1, nil)
			before := s.waitPlaced("db-0", "data-db-0", nil)
			s.provisionerPod(before.node(s))
			s.report(before.pv, state)
			s.waitPlaced("db-0", "data-db-0", before)
			s.Wait("the volume to be deleted, and held for its provisioner", func() bool {
				v := s.seen(before.pv)
				return v != nil && v.DeletionTimestamp != nil && len(v.Finalizers) == 1 && v.Finalizers[0] == wellknown.LocalVolumeFinalizer
			})
		})
	}
}

// TestNodeBack: the node is back before the delay is over. Nothing is lost, and the mark is removed.
func TestNodeBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "1h"), "a", "b")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	node := before.node(s)
	marked := func(want bool) func() bool {
		return func() bool {
			v := s.seen(before.pv)
			return v != nil && (v.Annotations[wellknown.LostAnnotation] != "") == want
		}
	}
	s.lose(node)
	s.Wait("the loss to be written down", marked(true))
	s.AddNodes(s.Node(node)) // another UID, the same name
	s.Wait("the loss to be forgotten", marked(false))
	s.Wait("the pod to run with its volume", func() bool {
		p, c := s.SeenPod("db-0"), s.SeenPVC("data-db-0")
		return p != nil && p.Status.Phase == corev1.PodRunning && p.Spec.NodeName == s.Name(node) && c != nil && c.UID == before.claim.UID && c.DeletionTimestamp == nil
	})
}

// TestClaimsKept: claims that are not to be released, and say why.
func TestClaimsKept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		class  map[string]string
		claim  map[string]string
		lone   bool // a claim without owner
		reason string
		says   []string
	}{
		"by default":                          {reason: "VolumeLost", says: []string{"kept", "Keep", "is gone"}},
		"by its annotation against its class": {class: asks("Release", "1s"), claim: map[string]string{wellknown.NodeLossAnnotation: "Keep"}, reason: "VolumeLost", says: []string{"Keep"}},
		"as it would not be recreated":        {class: asks("Release", "1s"), lone: true, reason: "ClaimNotRecreatable", says: []string{"neither of a StatefulSet"}},
		"as its policy is invalid":            {class: asks("Release", "1s"), claim: map[string]string{wellknown.NodeLossAnnotation: "release"}, reason: "InvalidNodeLoss", says: []string{`"release"`, "allowed is Keep or Release"}},
		"as its delay is invalid":             {class: asks("Release", "1"), reason: "InvalidNodeLoss", says: []string{"StorageClass", "allowed is a duration"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, fixture.New(t), tc.class, "a")
			claim := "data-db-0"
			if tc.lone {
				claim = "lone"
				s.CreatePVC(s.PVC(claim).Class(s.class).Request("1Mi"))
				s.CreatePod(s.Pod("db-0").PVC(claim))
			} else {
				s.set("db", 1, func(set *appsv1.StatefulSet) { set.Spec.VolumeClaimTemplates[0].Annotations = tc.claim })
			}
			before := s.waitPlaced("db-0", claim, nil)
			free := s.volume("a", "disk2", corev1.PersistentVolumeReclaimDelete) // whose end shows that the delay is over
			s.lose("a")
			s.WaitEvent(s.Namespace, claim, tc.reason, tc.says...)
			s.waitGone(free, stowage.TombstonePublished)
			if c := s.SeenPVC(claim); c == nil || c.UID != before.claim.UID || c.DeletionTimestamp != nil {
				t.Errorf("the claim was not kept: %v", c)
			}
			if v := s.seen(before.pv); v == nil || v.DeletionTimestamp != nil {
				t.Errorf("the volume of a claim that is kept was not: %v", v)
			}
		})
	}
}

// TestRetained: a Released volume of policy Retain is its administrator's. Once deleted
// it is removed, with a tombstone that retains its disk.
func TestRetained(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "1s"), "a")
	for _, v := range s.SeenPVs() {
		_, err := s.Client.CoreV1().PersistentVolumes().Patch(s.Context(), v.Name, types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	s.lose("a")
	s.WaitEvent(metav1.NamespaceDefault, before.pv.Name, "VolumeLost", "until an administrator deletes it")
	if err := s.Client.CoreV1().PersistentVolumes().Delete(s.Context(), before.pv.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitGone(before.pv, stowage.TombstoneRetained)
}

// TestReserved: by an administrator, for a claim that does not exist. The volume stays, with the
// reason; without the reservation, it is removed.
func TestReserved(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "1s"), "a")
	reserved := s.SeenPVs()[0]
	patch := func(ref string) {
		body := []byte(`{"spec":{"claimRef":` + ref + `}}`)
		if _, err := s.Client.CoreV1().PersistentVolumes().Patch(s.Context(), reserved.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"namespace":"` + s.Namespace + `","name":"later"}`)
	s.lose("a")
	s.WaitEvent(metav1.NamespaceDefault, reserved.Name, "VolumeLost", "reserved", "claimRef")
	patch("null")
	s.waitGone(reserved, stowage.TombstonePublished)
}

// TestVolumesOfOthers: volumes that no provisioner published are not changed.
func TestVolumesOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "1s"), "a")
	others := s.CreatePVs(
		s.LocalPV("unmarked", "a"),
		s.LocalPV("forged", "a").Annotation(wellknown.NodeNameAnnotation, s.Name("a")).ProvisionedBy("example.com/local"),
	)
	ours := s.volume("a", "disk2", corev1.PersistentVolumeReclaimDelete)
	s.lose("a")
	s.waitGone(ours, stowage.TombstonePublished)
	for _, v := range others {
		if now := s.SeenPV(v.Name); now == nil || now.DeletionTimestamp != nil || now.Annotations[wellknown.LostAnnotation] != "" {
			t.Errorf("volume %s was touched: %v", v.Name, now)
		}
	}
}
