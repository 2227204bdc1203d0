// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/testing/builders"
)

func TestHintPersistentVolume(t *testing.T) {
	t.Parallel()
	waiting := []runtime.Object{localClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "2Gi").Obj()}
	with := func(more ...runtime.Object) []runtime.Object { return append(slices.Clone(waiting), more...) }
	free := func() *builders.PV { return volume("v", "a", "2Gi") }
	used := func() *builders.PV { return free().ClaimRef("default", "old", "pvc-old") }
	runHints(t, fwk.PersistentVolume, map[string]hintCase{
		"a free volume that fits": {
			objects: waiting, pod: pod("p", "c"), now: free().Obj(), want: fwk.Queue,
		},
		"the volume becomes Available": {
			objects: waiting, pod: pod("p", "c"), before: free().Phase(v1.VolumePending).Obj(), now: free().Obj(), want: fwk.Queue,
		},
		"a volume that the PV controller has not observed": {
			objects: waiting, pod: pod("p", "c"), now: free().Phase(v1.VolumePending).Obj(), want: fwk.QueueSkip,
		},
		"the volume is too small": {
			objects: waiting, pod: pod("p", "c"), now: free().Capacity("1Gi").Obj(), want: fwk.QueueSkip,
		},
		"the volume grew": {
			objects: waiting, pod: pod("p", "c"), before: free().Capacity("1Gi").Obj(), now: free().Obj(), want: fwk.Queue,
		},
		"the volume is of another class": {
			objects: waiting, pod: pod("p", "c"), now: free().Class("else").Obj(), want: fwk.QueueSkip,
		},
		"the volume is of another mode": {
			objects: waiting, pod: pod("p", "c"), now: free().Block().Obj(), want: fwk.QueueSkip,
		},
		"no node reaches the volume": {
			objects: waiting, pod: pod("p", "c"), now: free().Hostname("gone").Obj(), want: fwk.QueueSkip,
		},
		"the volume is not reachable from the node of the pod's other volume": {
			objects: with(claim("bound", "1Gi").Bound("w").Obj(), volume("w", "b", "1Gi").ClaimRef("default", "bound", "pvc-bound").Phase(v1.VolumeBound).Obj()),
			pod:     pod("p", "bound", "c"), now: free().Obj(), want: fwk.QueueSkip,
		},
		"the volume serves one of two claims": {
			objects: with(claim("d", "2Gi").Obj()),
			pod:     pod("p", "c", "d"), now: free().Obj(), want: fwk.QueueSkip,
		},
		"the second of two volumes": {
			objects: with(claim("d", "2Gi").Obj(), volume("w", "a", "9Gi").Obj()),
			pod:     pod("p", "c", "d"), now: free().Obj(), want: fwk.Queue,
		},
		"a label makes the volume fit the selector": {
			objects: with(claim("gold", "1Gi").MatchLabel("tier", "gold").Obj()),
			pod:     pod("p", "gold"), before: free().Obj(), now: free().Label("tier", "gold").Obj(), want: fwk.Queue,
		},
		"a label that no selector requires": {
			objects: with(claim("gold", "1Gi").MatchLabel("tier", "gold").Obj()),
			pod:     pod("p", "gold"), before: free().Obj(), now: free().Label("rack", "r1").Obj(), want: fwk.QueueSkip,
		},
		"a free volume was annotated": {
			objects: waiting, pod: pod("p", "c"), before: free().Obj(), now: free().Annotation("touched", "yes").Obj(), want: fwk.QueueSkip,
		},
		"the volume was cleaned": {
			objects: waiting, pod: pod("p", "c"), before: used().Phase(v1.VolumeReleased).Obj(), now: free().Obj(), want: fwk.Queue,
		},
		"the volume was released and is to be cleaned": {
			objects: waiting, pod: pod("p", "c"), before: used().Phase(v1.VolumeBound).Obj(), now: used().Phase(v1.VolumeReleased).Obj(), want: fwk.QueueSkip,
		},
		"the volume of a bound claim is created": {
			objects: with(claim("bound", "1Gi").Bound("v").Obj()),
			pod:     pod("p", "bound"), now: free().ClaimRef("default", "bound", "pvc-bound").Phase(v1.VolumeBound).Obj(), want: fwk.Queue,
		},
		"the disk of a bound claim's volume is present again": {
			objects: with(claim("bound", "1Gi").Bound("v").Obj()), pod: pod("p", "bound"),
			before: free().ClaimRef("default", "bound", "pvc-bound").Phase(v1.VolumeBound).Annotation("stowage.dev/disk", "Replaced").Obj(),
			now:    free().ClaimRef("default", "bound", "pvc-bound").Phase(v1.VolumeBound).Obj(), want: fwk.Queue,
		},
		"the disk of a bound claim's volume is missing, and was replaced before": {
			objects: with(claim("bound", "1Gi").Bound("v").Obj()), pod: pod("p", "bound"),
			before: free().ClaimRef("default", "bound", "pvc-bound").Phase(v1.VolumeBound).Annotation("stowage.dev/disk", "Replaced").Obj(),
			now:    free().ClaimRef("default", "bound", "pvc-bound").Phase(v1.VolumeBound).Annotation("stowage.dev/disk", "Missing").Obj(), want: fwk.QueueSkip,
		},
		"a new volume names the claim": {
			objects: waiting, pod: pod("p", "c"), now: free().ClaimRef("default", "c", "").Obj(), want: fwk.Queue,
		},
		"a new volume names an earlier claim of this name": {
			objects: waiting, pod: pod("p", "c"), now: free().ClaimRef("default", "c", "pvc-former").Obj(), want: fwk.QueueSkip,
		},
		"a new volume names a claim of this name in another namespace": {
			objects: waiting, pod: pod("p", "c"), now: free().ClaimRef("elsewhere", "c", "").Obj(), want: fwk.QueueSkip,
		},
		"a volume that named the claim is deleted": {
			objects: waiting, pod: pod("p", "c"), before: free().Hostname("gone").ClaimRef("default", "c", "").Obj(), want: fwk.Queue,
		},
		"a volume that named no claim is deleted": {
			objects: waiting, pod: pod("p", "c"), before: free().Hostname("gone").Obj(), want: fwk.QueueSkip,
		},
		"a volume that named an earlier claim of this name is deleted": {
			objects: waiting, pod: pod("p", "c"), before: free().ClaimRef("default", "c", "pvc-former").Obj(), want: fwk.QueueSkip,
		},
		"the volume of a bound claim is deleted": {
			objects: with(claim("bound", "1Gi").Bound("v").Obj()),
			pod:     pod("p", "bound"), before: free().ClaimRef("default", "bound", "pvc-bound").Phase(v1.VolumeBound).Obj(), want: fwk.QueueSkip,
		},
		"a volume no longer names the claim": {
			objects: waiting, pod: pod("p", "c"), before: free().Hostname("gone").ClaimRef("default", "c", "").Obj(), now: free().Hostname("gone").Obj(), want: fwk.Queue,
		},
		"a volume names another claim instead": {
			objects: waiting, pod: pod("p", "c"), before: free().ClaimRef("default", "c", "").Obj(), now: used().Obj(), want: fwk.Queue,
		},
		"the pod waits for a claim, not for a volume": {
			objects: waiting, pod: pod("p", "c", "missing"), now: free().Obj(), want: fwk.QueueSkip,
		},
		"the volume is being deleted": {
			objects: waiting, pod: pod("p", "c"), before: free().Obj(), now: free().Deleting().Obj(), want: fwk.QueueSkip,
		},
	})
}

// TestHintZonalVolume: with more nodes than the hint tries, a volume that matches a claim
// is considered to help.
func TestHintZonalVolume(t *testing.T) {
	t.Parallel()
	waiting := []runtime.Object{localClass().Obj(), claim("c", "2Gi").Obj()}
	for i := range 20 {
		waiting = append(waiting, node(strconv.Itoa(i)).Zone("z").Obj())
	}
	runHints(t, fwk.PersistentVolume, map[string]hintCase{
		"fits": {
			objects: waiting, pod: pod("p", "c"), now: volume("v", "", "2Gi").Zone("z").Obj(), want: fwk.Queue,
		},
		"too small": {
			objects: waiting, pod: pod("p", "c"), now: volume("v", "", "1Gi").Zone("z").Obj(), want: fwk.QueueSkip,
		},
	})
}

// TestHintOfAnotherClass: an event that concerns none of the pod's classes costs little,
// since the hint runs for every waiting pod.
func TestHintOfAnotherClass(t *testing.T) {
	w := newTestbed(t, csiClass().Obj(), localClass().Obj(), csiDriver(true), node("a").Obj(), claim("c", "1Gi").Class("csi").Obj(), claim("l", "1Gi").Obj())
	for resource, of := range map[fwk.EventResource]struct {
		pod *v1.Pod
		now runtime.Object
	}{
		fwk.PersistentVolume:   {pod("p", "c"), volume("v", "a", "1Gi").Obj()},
		fwk.CSIStorageCapacity: {pod("p", "l"), capacity("r", "a", "10Gi").Obj()},
	} {
		w.put(of.now)
		now, hint := w.stored(of.now), w.hint(resource, fwk.Add)
		var got fwk.QueueingHint
		var err error
		allocs := testing.AllocsPerRun(100, func() { got, err = hint(klog.Background(), of.pod, nil, now) })
		if got != fwk.QueueSkip || err != nil || allocs > 4 {
			t.Errorf("%s: hint returns %v, error %v, with %v allocations; want QueueSkip with at most 4", resource, got, err, allocs)
		}
	}
}
