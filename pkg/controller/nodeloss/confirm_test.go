// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestReleaseOnStaleCaches: a release that only stale informers justify is not written.
func TestReleaseOnStaleCaches(t *testing.T) {
	t.Parallel()
	soon := classOf(rules.Release)
	soon.Annotations[wellknown.NodeLossDelayAnnotation] = "2h"
	owner := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := builders.MakePod("p").UID("pod").Obj()
		pod.Namespace, pod.OwnerReferences = "default", []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}}
		change(pod)
		return pod
	}
	scaled, going, other := setOf(nil)[0], setOf(nil)[0], setOf(nil)[0]
	scaled.Spec.Replicas = new(int32)
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Now()}, []string{"foregroundDeletion"}
	other.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	for name, tc := range map[string]struct {
		class   *storagev1.StorageClass
		set     *appsv1.StatefulSet
		pod     *corev1.Pod // of a generic ephemeral claim
		byClaim bool        // the claim has the annotation that it is recreated
		release bool
	}{
		"the claim has the annotation":           {class: classOf(rules.Release), byClaim: true, release: true},
		"the claim does, the class keeps it":     {class: classOf(rules.Keep), byClaim: true},
		"nothing has changed":                    {class: classOf(rules.Release), set: setOf(nil)[0], release: true},
		"the class keeps claims":                 {class: classOf(rules.Keep), set: setOf(nil)[0]},
		"the class has an invalid annotation":    {class: classOf("keep"), set: setOf(nil)[0]},
		"the class has a longer delay":           {class: soon, set: setOf(nil)[0]},
		"the class is gone":                      {set: setOf(nil)[0]},
		"the set has no such pod any more":       {class: classOf(rules.Release), set: scaled},
		"the set is being deleted":               {class: classOf(rules.Release), set: going},
		"the set was recreated for other claims": {class: classOf(rules.Release), set: other},
		"the set is gone":                        {class: classOf(rules.Release)},
		"the pod is there":                       {class: classOf(rules.Release), pod: owner(func(*corev1.Pod) {}), release: true},
		"the pod has no controller any more":     {class: classOf(rules.Release), pod: owner(func(p *corev1.Pod) { p.OwnerReferences = nil })},
		"the pod is gone":                        {class: classOf(rules.Release), pod: owner(func(p *corev1.Pod) { p.Name = "other" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, f, _ := lostClaim()
			objects := []runtime.Object{f.volume, f.claim}
			if tc.class != nil {
				objects = append(objects, tc.class)
			}
			if tc.set != nil {
				tc.set.Namespace = "default"
				objects = append(objects, tc.set)
			}
			want := []string{"patch persistentvolumes", "delete persistentvolumeclaims"}
			if tc.pod != nil {
				objects = append(objects, tc.pod)
				want[1] = "delete pods"
				f.claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "pod", Controller: new(true)}}
				f.Claim.Recreator = &rules.Recreator{Name: "p", UID: "pod", ByPod: true}
				f.Pods = []rules.Pod{{Namespace: "default", Name: "p", UID: "pod"}}
			}
			if tc.byClaim {
				f.Claim.Recreator = &rules.Recreator{ByClaim: true}
			}
			client := fake.NewClientset(objects...)
			c.Client = client
			if err := c.confirm(t.Context(), f, toBegin); (err == nil) != tc.release || err != nil && !errors.Is(err, loop.ErrStale) {
				t.Errorf("confirmed: %v, want it to be released: %t", err, tc.release)
			}
			if err := c.apply(t.Context(), f, toBegin); (err == nil) != tc.release || err != nil && !errors.Is(err, loop.ErrStale) {
				t.Errorf("released: %v, want it to be: %t", err, tc.release)
			}
			if !tc.release {
				want[1] = want[0] // the release is undone
			}
			if got := writes(client); !slices.Equal(got, want) || (len(c.released) > 0) != tc.release {
				t.Errorf("wrote %q, want %q; counted %v", got, want, c.released)
			}
		})
	}
}

// TestGivingUpOnStaleCaches: a provisioned volume is not given up by a class that keeps it now, unless its
// claim was released.
func TestGivingUpOnStaleCaches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		class    string
		node     bool
		released bool
		want     bool
	}{
		"nothing has changed":                       {class: rules.Release, want: true},
		"the class keeps volumes":                   {class: rules.Keep},
		"the class keeps them, after a release":     {class: rules.Keep, released: true, want: true},
		"the node has returned":                     {class: rules.Release, node: true},
		"the node has returned, after the release ": {class: rules.Release, node: true, released: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, f, _ := lostClaim()
			f.Provisioned, f.claim, f.Claim = true, nil, nil
			f.Volume.Phase, f.Volume.Policy = disk.PhaseReleased, disk.Delete
			if f.Release = nil; tc.released {
				f.Release = &rules.BegunRelease{ClaimUID: f.Volume.ClaimUID, At: f.Now}
			}
			objects := []runtime.Object{classOf(tc.class)}
			if tc.node {
				objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node}})
			}
			c.Client = fake.NewClientset(objects...)
			err := c.confirm(t.Context(), f, rules.Decision{Do: rules.DeletePavVolume, Cause: rules.NodeGone})
			if (err == nil) != tc.want || err != nil && !errors.Is(err, loop.ErrStale) {
				t.Errorf("confirmed: %v, want that it is given up: %t", err, tc.want)
			}
		})
	}
}

// TestNoVolumeIsRemovedWithoutTombstone: the API server must have the tombstone, whatever the informer
// shows.
func TestNoVolumeIsRemovedWithoutTombstone(t *testing.T) {
	t.Parallel()
	name := stowage.TombstoneName("a", "wwn:1")
	kept := tombstoneObject(name, "a", "wwn:1", "old")
	kept.Spec.State = stowage.TombstoneRetained
	for what, tc := range map[string]struct {
		tombstone *stowage.LocalDiskTombstone
		want      error
		retain    bool // the policy of the volume
	}{
		"it is there":                       {tombstoneObject(name, "a", "wwn:1", "old"), nil, false},
		"it keeps the data":                 {kept, nil, false},
		"it keeps the data, as the volume":  {kept, nil, true},
		"the volume's policy is Retain now": {tombstoneObject(name, "a", "wwn:1", "old"), loop.ErrStale, true},
		"it is of another volume":           {tombstoneObject(name, "a", "wwn:1", "new"), loop.ErrStale, false},
		"it is of another disk":             {tombstoneObject(name, "a", "wwn:2", "old"), loop.ErrStale, false},
		"it is of another node":             {tombstoneObject(name, "b", "wwn:1", "old"), loop.ErrStale, false},
		"an administrator deleted it":       {nil, loop.ErrStale, false},
		"there is one only of another name": {tombstoneObject("ldt-other", "a", "wwn:1", "old"), loop.ErrStale, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, api := withAPI(t)
			if tc.tombstone != nil {
				api.put(tc.tombstone)
			}
			volume := ownedVolume("pv", "a", "wwn:1")
			volume.UID, volume.Spec.PersistentVolumeReclaimPolicy = "old", corev1.PersistentVolumeReclaimDelete
			if tc.retain {
				volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			}
			f := &volumeFacts{volume: volume, node: "a"}
			for _, do := range []rules.Action{rules.DeleteVolume, rules.RemoveFinalizer} {
				if tc.want == nil {
					if err := c.confirmTombstone(t.Context(), f); err != nil {
						t.Error(err)
					}
				} else if err := c.confirm(t.Context(), f, rules.Decision{Do: do, Cause: rules.NodeGone}); !errors.Is(err, tc.want) {
					t.Errorf("%s: %v, want %v", do, err, tc.want)
				}
			}
		})
	}
}
