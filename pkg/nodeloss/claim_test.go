// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
)

func claimOf(name string) *corev1.PersistentVolumeClaim {
	claim := builders.MakePVC(name).Obj()
	claim.Labels = map[string]string{"app": "db"}
	return claim
}

func setOf(change func(*appsv1.StatefulSet)) []*appsv1.StatefulSet {
	replicas := int32(3)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "set"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*builders.MakePVC("data").Obj(), *builders.MakePVC("log").Obj()},
		},
	}
	if change != nil {
		change(set)
	}
	return []*appsv1.StatefulSet{set}
}

// TestMakerSet: which claims a StatefulSet makes again.
func TestMakerSet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim     *corev1.PersistentVolumeClaim
		sets      []*appsv1.StatefulSet
		hindrance string // empty: it is made again
	}{
		"of the first template":             {claimOf("data-db-0"), setOf(nil), ""},
		"of another template":               {claimOf("log-db-2"), setOf(nil), ""},
		"of no set":                         {claimOf("data-db-0"), nil, "neither"},
		"of a template that was taken away": {claimOf("old-db-0"), setOf(nil), "neither"},
		"of a pod that was scaled away":     {claimOf("data-db-3"), setOf(nil), "has no pod 3"},
		"of no number":                      {claimOf("data-db-x"), setOf(nil), "neither"},
		"of a number nobody writes":         {claimOf("data-db-00"), setOf(nil), "neither"},
		"of a number below none":            {claimOf("data-db--1"), setOf(nil), "has no pod"},
		"named alike, and made by somebody": {builders.MakePVC("data-db-0").Obj(), setOf(nil), "neither"},
		"of a set without a number of pods": {claimOf("data-db-0"), setOf(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }), ""},
		"below the first number":            {claimOf("data-db-0"), setOf(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }), "has no pod 0"},
		"from the first number on":          {claimOf("data-db-7"), setOf(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }), ""},
		"of a set that is on its way out":   {claimOf("data-db-0"), setOf(func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{} }), "is being deleted"},
		"of a set that selects nothing":     {claimOf("data-db-0"), setOf(func(s *appsv1.StatefulSet) { s.Spec.Selector = nil }), "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			maker, hindrance := makerSet(tc.claim, tc.sets)
			if (maker != nil) != (tc.hindrance == "") || !strings.Contains(hindrance, tc.hindrance) || maker != nil && maker.UID != "set" {
				t.Errorf("maker %+v, hindrance %q, want %q", maker, hindrance, tc.hindrance)
			}
		})
	}
}

// TestMakerPod: whose pod is made anew, so that its generic ephemeral claim is.
func TestMakerPod(t *testing.T) {
	t.Parallel()
	controlled := func(kind string) *corev1.Pod {
		pod := builders.MakePod("p").UID("pod").Obj()
		if kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
		}
		return pod
	}
	leaving := controlled("ReplicaSet")
	leaving.DeletionTimestamp = &metav1.Time{}
	owner := &metav1.OwnerReference{Kind: "Pod", Name: "p", UID: "pod"}
	for name, tc := range map[string]struct {
		pods         []*corev1.Pod
		away         bool
		made, leaves bool
	}{
		"by a ReplicaSet": {pods: []*corev1.Pod{controlled("ReplicaSet")}, made: true},
		"by nobody":       {pods: []*corev1.Pod{controlled("")}},
		"by kubelet":      {pods: []*corev1.Pod{controlled("Node")}},
		"on its way out":  {pods: []*corev1.Pod{leaving}, made: true, leaves: true},
		"on its way out, and nobody to see to it": {pods: []*corev1.Pod{leaving}, away: true, made: true},
		"gone already": {made: true, leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			maker, hindrance := makerPod(owner, tc.pods, tc.away)
			if (maker != nil) != tc.made || (hindrance == "") != tc.made || maker != nil && maker.Leaving != tc.leaves {
				t.Errorf("maker %+v, hindrance %q", maker, hindrance)
			}
		})
	}
}
