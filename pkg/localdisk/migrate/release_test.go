// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/testing/builders"
)

// ours is a volume of node a's provisioner, with a claimRef if claim is not empty.
func ours(phase corev1.PersistentVolumePhase, claim string) *corev1.PersistentVolume {
	b := reference("v").Phase(phase)
	if claim != "" {
		b.ClaimRef("ns", claim, "1")
	}
	return changed(b, owned)
}

func deleting(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	now := metav1.Now().Rfc3339Copy()
	pv.DeletionTimestamp = &now
	return pv
}

func TestFindHeld(t *testing.T) {
	all := migrate.ReleaseOptions{All: true}
	gone := changed(reference("v"), func(pv *corev1.PersistentVolume) {
		owned(pv)
		pv.Annotations[wellknown.NodeNameAnnotation] = "gone"
	})
	notReady := builders.MakeNode("c").Obj()
	notReady.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	onC := changed(reference("v"), func(pv *corev1.PersistentVolume) {
		owned(pv)
		pv.Annotations[wellknown.NodeNameAnnotation] = "c"
	})
	type outcome struct {
		Data migrate.Data
		Kept bool
	}
	asPublished := &outcome{Data: migrate.AsPublished}
	wiped, failed := deleting(ours(corev1.VolumeReleased, "claim")), batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}
	for name, test := range map[string]struct {
		pv      *corev1.PersistentVolume
		others  []runtime.Object
		options migrate.ReleaseOptions
		want    *outcome // nil: not found
	}{
		"available":                              {pv: ours(corev1.VolumeAvailable, ""), options: all, want: asPublished},
		"reserved for a claim":                   {pv: ours(corev1.VolumeAvailable, "claim"), options: all, want: asPublished},
		"bound":                                  {pv: ours(corev1.VolumeBound, "claim"), options: all, want: &outcome{Data: migrate.OfClaim}},
		"released":                               {pv: ours(corev1.VolumeReleased, "claim"), options: all, want: &outcome{Data: migrate.NotCleaned}},
		"failed":                                 {pv: ours(corev1.VolumeFailed, "claim"), options: all, want: &outcome{Data: migrate.NotCleaned}},
		"being cleaned":                          {pv: deleting(ours(corev1.VolumeReleased, "claim")), options: all, want: &outcome{Data: migrate.NotCleaned}},
		"being deleted, never claimed":           {pv: deleting(ours(corev1.VolumeAvailable, "")), options: all, want: asPublished},
		"of a node that was selected":            {pv: ours(corev1.VolumeAvailable, ""), options: migrate.ReleaseOptions{Nodes: []string{"b", "a"}}, want: asPublished},
		"of another node":                        {pv: ours(corev1.VolumeAvailable, ""), options: migrate.ReleaseOptions{Nodes: []string{"b"}}},
		"of a node that is gone":                 {pv: gone, options: migrate.ReleaseOptions{Nodes: []string{"gone"}}, want: asPublished},
		"of the reference":                       {pv: reference("v").Obj(), options: all},
		"whose provisioner runs":                 {pv: ours(corev1.VolumeAvailable, ""), others: []runtime.Object{provisionerPod("a")}, options: all, want: &outcome{Data: migrate.AsPublished, Kept: true}},
		"while another node's provisioner runs":  {pv: ours(corev1.VolumeAvailable, ""), others: []runtime.Object{provisionerPod("b")}, options: all, want: asPublished},
		"whose node is not ready":                {pv: onC, others: []runtime.Object{notReady, provisionerPod("c")}, options: all, want: asPublished},
		"whose disk a Job wipes":                 {pv: wiped, others: []runtime.Object{ourJob("v", "a")}, options: all, want: &outcome{Data: migrate.NotCleaned, Kept: true}},
		"whose disk the pod of a lost Job wipes": {pv: wiped, others: []runtime.Object{ourPod("v", "a", corev1.PodRunning)}, options: all, want: &outcome{Data: migrate.NotCleaned, Kept: true}},
		"whose disk a Job has wiped": {
			pv: wiped, others: []runtime.Object{ourJob("v", "a", failed), ourPod("v", "a", corev1.PodFailed)}, options: all, want: &outcome{Data: migrate.NotCleaned}},
		"while a Job wipes another disk": {pv: wiped, others: []runtime.Object{ourJob("w", "a"), ourPod("w", "a", corev1.PodRunning)}, options: all, want: &outcome{Data: migrate.NotCleaned}},
		"whose disk a Job may be wiping, on a node that is not ready": {
			pv: onC, others: []runtime.Object{notReady, ourJob("v", "c"), ourPod("v", "c", corev1.PodRunning)}, options: all, want: asPublished},
		"whose provisioner runs, and WhileRunning is set": {
			pv: ours(corev1.VolumeAvailable, ""), others: []runtime.Object{provisionerPod("a")},
			options: migrate.ReleaseOptions{All: true, WhileRunning: true}, want: asPublished},
		"with GiveBack": {
			pv: ours(corev1.VolumeBound, "claim"), options: migrate.ReleaseOptions{All: true, GiveBack: true}, want: &outcome{Data: migrate.OfClaim}},
		"with GiveBack, while it is cleaned": {
			pv:      deleting(ours(corev1.VolumeReleased, "claim")),
			options: migrate.ReleaseOptions{All: true, GiveBack: true}, want: &outcome{Data: migrate.NotCleaned, Kept: true}},
		"with GiveBack, and its node is gone": {
			pv: gone, options: migrate.ReleaseOptions{All: true, GiveBack: true}, want: &outcome{Data: migrate.AsPublished, Kept: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, err := migrate.FindHeld(t.Context(), cluster(append(test.others, test.pv)...), test.options)
			if err != nil {
				t.Fatal(err)
			}
			var got *outcome
			if len(held) == 1 {
				got = &outcome{Data: held[0].Data, Kept: held[0].Kept != ""}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReleaseTakesAllOrSome(t *testing.T) {
	for _, options := range []migrate.ReleaseOptions{{}, {All: true, Nodes: []string{"a"}}} {
		if _, err := migrate.FindHeld(t.Context(), cluster(), options); err == nil {
			t.Errorf("%+v: no error", options)
		}
	}
}

func TestRelease(t *testing.T) {
	published := ours(corev1.VolumeBound, "claim")
	published.Finalizers = append(published.Finalizers, "kubernetes.io/pv-protection")
	published.Annotations[wellknown.DiskIdentityAnnotation] = "fs:1:/"
	wasAdopted := changed(reference("v").ProvisionedBy("local-volume-provisioner-a-"+otherUID), adopted)
	for name, test := range map[string]struct {
		pv      *corev1.PersistentVolume
		options migrate.ReleaseOptions
		want    func(*corev1.PersistentVolume)
	}{
		"only the finalizer is removed": {
			pv: published, options: migrate.ReleaseOptions{All: true},
			want: func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{"kubernetes.io/pv-protection"} },
		},
		"given to the reference": {
			pv: published, options: migrate.ReleaseOptions{All: true, GiveBack: true},
			want: func(pv *corev1.PersistentVolume) {
				pv.Finalizers, pv.Labels = []string{"kubernetes.io/pv-protection"}, nil
				pv.Annotations = map[string]string{localpv.ProvisionedByAnnotation: "local-volume-provisioner-a-" + nodeUID}
			},
		},
		"given to the reference that uses names only": {
			pv: published, options: migrate.ReleaseOptions{All: true, GiveBack: true, NodeNameOnly: true},
			want: func(pv *corev1.PersistentVolume) {
				pv.Finalizers, pv.Labels = []string{"kubernetes.io/pv-protection"}, nil
				pv.Annotations = map[string]string{localpv.ProvisionedByAnnotation: "local-volume-provisioner-a"}
			},
		},
		"released to its former provisioner": {
			pv: wasAdopted, options: migrate.ReleaseOptions{All: true, GiveBack: true},
			want: func(pv *corev1.PersistentVolume) {
				pv.Finalizers, pv.Labels = nil, nil
				pv.Annotations = map[string]string{localpv.ProvisionedByAnnotation: "local-volume-provisioner-a-" + otherUID}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := cluster(test.pv)
			held, err := migrate.FindHeld(t.Context(), client, test.options)
			if err != nil || len(held) != 1 {
				t.Fatalf("found %v, %v", held, err)
			}
			if err := migrate.Release(t.Context(), client, &held[0]); err != nil {
				t.Fatal(err)
			}
			got, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "v", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := test.pv.DeepCopy()
			test.want(want)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReleaseContinues: a volume that lost its finalizer before is released too.
func TestReleaseContinues(t *testing.T) {
	pv := ours(corev1.VolumeBound, "claim")
	pv.Finalizers = nil
	held, err := migrate.FindHeld(t.Context(), cluster(pv), migrate.ReleaseOptions{All: true, GiveBack: true})
	if err != nil || len(held) != 1 || held[0].Kept != "" {
		t.Errorf("found %+v, %v", held, err)
	}
}
