// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
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

// TestRecreatingSet: which claims a StatefulSet recreates.
func TestRecreatingSet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim    *corev1.PersistentVolumeClaim
		sets     []*appsv1.StatefulSet
		obstacle string // empty: it is made again; none: it is of no set
	}{
		"of the first template":                 {claimOf("data-db-0"), setOf(nil), ""},
		"of another template":                   {claimOf("log-db-2"), setOf(nil), ""},
		"of no set":                             {claimOf("data-db-0"), nil, "none"},
		"of a template that was removed":        {claimOf("old-db-0"), setOf(nil), "none"},
		"of a pod that was scaled away":         {claimOf("data-db-3"), setOf(nil), "has no pod 3"},
		"of no number":                          {claimOf("data-db-x"), setOf(nil), "none"},
		"with an ordinal of another format":     {claimOf("data-db-00"), setOf(nil), "none"},
		"of a number below none":                {claimOf("data-db--1"), setOf(nil), "has no pod"},
		"with the same name, created by a user": {builders.MakePVC("data-db-0").Obj(), setOf(nil), "none"},
		"of a set without a number of pods":     {claimOf("data-db-0"), setOf(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }), ""},
		"below the first number":                {claimOf("data-db-0"), setOf(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }), "has no pod 0"},
		"from the first number on":              {claimOf("data-db-7"), setOf(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }), ""},
		"of a set that is being deleted":        {claimOf("data-db-0"), setOf(func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{} }), "is being deleted"},
		"of a set that selects nothing":         {claimOf("data-db-0"), setOf(func(s *appsv1.StatefulSet) { s.Spec.Selector = nil }), "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recreator, obstacle := recreatingSet(tc.claim, tc.sets)
			if recreator == nil && obstacle == "" {
				obstacle = "none"
			}
			if (recreator != nil) != (tc.obstacle == "") || !strings.Contains(obstacle, tc.obstacle) || recreator != nil && recreator.UID != "set" {
				t.Errorf("recreator %+v, obstacle %q, want %q", recreator, obstacle, tc.obstacle)
			}
		})
	}
}

// TestRecreatedByOwner: operators recreate claims of no StatefulSet, by annotation of the claim or
// kind of its owner.
func TestRecreatedByOwner(t *testing.T) {
	t.Parallel()
	owned := func(apiVersion, kind string) func(*corev1.PersistentVolumeClaim) {
		return func(claim *corev1.PersistentVolumeClaim) {
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}, {APIVersion: apiVersion, Kind: kind, Name: "db", UID: "db"}}
		}
	}
	says := func(value string) func(*corev1.PersistentVolumeClaim) {
		return func(claim *corev1.PersistentVolumeClaim) {
			claim.Annotations = map[string]string{wellknown.NodeLossRecreatableAnnotation: value}
		}
	}
	all := func(changes ...func(*corev1.PersistentVolumeClaim)) func(*corev1.PersistentVolumeClaim) {
		return func(claim *corev1.PersistentVolumeClaim) {
			for _, change := range changes {
				change(claim)
			}
		}
	}
	scaledTo := func(n int32) *appsv1.StatefulSet {
		set := setOf(nil)[0]
		set.Namespace, set.Spec.Replicas = "default", &n
		return set
	}
	for name, tc := range map[string]struct {
		claim     func(*corev1.PersistentVolumeClaim)
		set       *appsv1.StatefulSet
		recreator *rules.Recreator
		obstacle  string
	}{
		"its annotation is true":                                 {claim: says("true"), recreator: &rules.Recreator{ByClaim: true}},
		"its annotation is false":                                {claim: says("false"), obstacle: "is false"},
		"its annotation is invalid":                              {claim: says("yes"), obstacle: `"yes", allowed is true or false`},
		"its owner is of a kind that does":                       {claim: owned("postgresql.cnpg.io/v1", "Cluster"), recreator: &rules.Recreator{ByClaim: true}},
		"in whatever version":                                    {claim: owned("postgresql.cnpg.io/v2beta1", "Cluster"), recreator: &rules.Recreator{ByClaim: true}},
		"its owner is, but its annotation is false":              {claim: all(owned("postgresql.cnpg.io/v1", "Cluster"), says("false")), obstacle: "is false"},
		"its owner is of another kind":                           {claim: owned("postgresql.cnpg.io/v1", "Backup"), obstacle: "nodeLoss.recreatingOwners"},
		"its owner is of another group":                          {claim: owned("cluster.x-k8s.io/v1", "Cluster"), obstacle: "nodeLoss.recreatingOwners"},
		"its owner is of no group":                               {claim: owned("v1", "Cluster"), obstacle: "nodeLoss.recreatingOwners"},
		"its owner is of an invalid version":                     {claim: owned("a/b/c", "Cluster"), obstacle: "nodeLoss.recreatingOwners"},
		"a StatefulSet does":                                     {claim: says("true"), set: scaledTo(3), recreator: &rules.Recreator{Name: "db", UID: "set"}},
		"a StatefulSet has no such pod, whatever its annotation": {claim: says("true"), set: scaledTo(0), obstacle: "has no pod 0"},
		"a StatefulSet does, but its annotation is false":        {claim: says("false"), set: scaledTo(3), obstacle: "is false"},
		"nothing": {claim: func(*corev1.PersistentVolumeClaim) {}, obstacle: "not annotated stowage.dev/node-loss-recreatable=true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := claimOf("data-db-0")
			claim.Namespace, claim.UID = "default", "claim"
			tc.claim(claim)
			claims, sets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := claims.Add(claim); err != nil {
				t.Fatal(err)
			}
			if tc.set != nil {
				if err := sets.Add(tc.set); err != nil {
					t.Fatal(err)
				}
			}
			c := &Controller{
				Config: Config{Settings: controller.NodeLoss{RecreatingOwners: []string{"Redis.redis.example.com", "Cluster.postgresql.cnpg.io"}}},
				pods:   cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, podIndexes((&Controller{}).nodeOfProvisioner)),
				claims: corelisters.NewPersistentVolumeClaimLister(claims), sets: appslisters.NewStatefulSetLister(sets),
			}
			f := &volumeFacts{volume: ownedVolume("pv", "a", "wwn:1"), node: "a"}
			f.volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
			if err := c.readClaim(f); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.recreator, f.Claim.Recreator); diff != "" {
				t.Errorf("recreator (-want +got):\n%s", diff)
			}
			if (f.Claim.Obstacle == "") != (tc.obstacle == "") || !strings.Contains(f.Claim.Obstacle, tc.obstacle) {
				t.Errorf("obstacle %q, want %q", f.Claim.Obstacle, tc.obstacle)
			}
		})
	}
}

// TestTerminatedOwner: a terminated pod keeps its generic ephemeral claim until the pod is
// deleted.
func TestTerminatedOwner(t *testing.T) {
	t.Parallel()
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			owner, other := builders.MakePod("cache").UID("owner").PVC("cache-scratch").Obj(), builders.MakePod("other").UID("other").PVC("cache-scratch").Obj()
			owner.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}}
			owner.Status.Phase, other.Status.Phase = phase, phase
			claim := claimOf("cache-scratch")
			claim.UID, claim.OwnerReferences = "claim", []metav1.OwnerReference{{Kind: "Pod", Name: "cache", UID: "owner", Controller: new(true)}}
			claim.Namespace, other.Namespace = owner.Namespace, owner.Namespace
			pods := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, podIndexes((&Controller{}).nodeOfProvisioner))
			claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			if err := errors.Join(pods.GetIndexer().Add(owner), pods.GetIndexer().Add(other), claims.Add(claim)); err != nil {
				t.Fatal(err)
			}
			c := &Controller{pods: pods, claims: corelisters.NewPersistentVolumeClaimLister(claims)}
			volume := ownedVolume("pv", "a", "wwn:1")
			volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
			f := &volumeFacts{volume: volume, node: "a", Facts: rules.Facts{Node: rules.Ready}}
			if err := c.readClaim(f); err != nil {
				t.Fatal(err)
			}
			if f.Claim == nil || f.Claim.Recreator == nil || f.Claim.Recreator.Leaving || f.Claim.Recreator.UID != "owner" {
				t.Errorf("claim %+v, want one that is deleted with its pod", f.Claim)
			}
			if len(f.Pods) != 1 || f.Pods[0].UID != "owner" {
				t.Errorf("pods %+v, want the owner", f.Pods)
			}
		})
	}
}

// TestRecreatingPod: which pods are recreated together with their generic ephemeral claims.
func TestRecreatingPod(t *testing.T) {
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
		lost         bool
		made, leaves bool
	}{
		"by a ReplicaSet":                {pods: []*corev1.Pod{controlled("ReplicaSet")}, made: true},
		"without a controller":           {pods: []*corev1.Pod{controlled("")}},
		"by kubelet":                     {pods: []*corev1.Pod{controlled("Node")}},
		"being deleted":                  {pods: []*corev1.Pod{leaving}, made: true, leaves: true},
		"terminating, without a kubelet": {pods: []*corev1.Pod{leaving}, lost: true, made: true},
		"gone already":                   {made: true, leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recreator, obstacle := recreatingPod(owner, tc.pods, tc.lost)
			if (recreator != nil) != tc.made || (obstacle == "") != tc.made || recreator != nil && recreator.Leaving != tc.leaves {
				t.Errorf("recreator %+v, obstacle %q", recreator, obstacle)
			}
		})
	}
}
