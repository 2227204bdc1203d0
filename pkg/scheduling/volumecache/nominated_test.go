// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// preemptor is a pod of high priority that is nominated to node a.
func preemptor(claims ...string) *v1.Pod {
	return builders.MakePod("p").Namespace("default").UID("pod-p").Priority(10).PVC(claims...).NominatedNode("a").Obj()
}

func (w *testbed) wantAwaits(when string, want bool) {
	w.t.Helper()
	d := w.demand(preemptor("c"))
	w.Withhold(d)
	if got := w.Awaits(d); got != want {
		w.t.Errorf("%s: Awaits is %t, want %t", when, got, want)
	}
	w.check()
}

// terminatingPod is the pod while it is being deleted.
func terminatingPod(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = builders.MakePod("x").Deleting().Obj().DeletionTimestamp
	return pod
}

// TestAwaits: a nominated pod waits for the volume from the victim's deletion until the
// volume is published again.
func TestAwaits(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*testbed, *v1.Pod, *builders.PV) {
		t.Parallel()
		w, victim, volume := ephemeralTestbed(t, v1.PersistentVolumeReclaimDelete)
		w.put(preemptor("c"))
		w.clock.SetTime(w.clock.Now().Add(inheritTime))
		w.wantAwaits("the victim runs", false)
		return w, victim, volume
	}
	released := func(w *testbed, victim *v1.Pod, volume *builders.PV) {
		w.put(terminatingPod(victim))
		w.remove(terminatingPod(victim))
		w.remove(w.claim("victim-scratch"))
		w.put(volume.Phase(v1.VolumeReleased).Obj())
		w.wantAwaits("volume Released", true)
	}
	t.Run("through all stages", func(t *testing.T) {
		w, victim, volume := begin(t)
		w.put(terminatingPod(victim))
		w.wantAwaits("the victim is being deleted", true)
		w.remove(terminatingPod(victim))
		w.wantAwaits("the victim is deleted, and its claim is not deleted yet", true)
		claim := w.claim("victim-scratch")
		claim.DeletionTimestamp = builders.MakePVC("x").Deleting().Obj().DeletionTimestamp
		w.put(claim)
		w.wantAwaits("the claim is being deleted", true)
		w.remove(claim)
		w.wantAwaits("the claim is deleted, and the volume is still Bound", true)
		w.put(volume.Phase(v1.VolumeReleased).Obj())
		w.wantAwaits("the volume is Released", true)
		w.put(volume.Deleting().Obj())
		w.wantAwaits("the volume is being deleted", true)
		w.remove(volume.Obj())
		w.wantAwaits("the disk is being cleaned, the volume is deleted", true)
		w.put(localPV("unrelated", "b", "5Gi").Obj())
		w.wantAwaits("a volume appeared on another node", true)
		w.put(localPV("again", "a", "5Gi").Phase(v1.VolumePending).Obj())
		w.wantAwaits("the volume is published again, and not Available yet", true)
		w.put(localPV("again", "a", "5Gi").Phase(v1.VolumeBound).ClaimRef("default", "other", "pvc-other").Obj())
		w.wantAwaits("the volume is published again, and another pod has it", false)
	})
	t.Run("ten minutes per stage", func(t *testing.T) {
		w, victim, volume := begin(t)
		released(w, victim, volume)
		w.clock.SetTime(w.clock.Now().Add(awaitTime - time.Second))
		w.put(volume.Label("touched", "yes").Obj())
		w.wantAwaits("before ten minutes", true)
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		w.wantAwaits("after ten minutes", false)
		w.remove(volume.Obj())
		w.wantAwaits("the disk is being cleaned", true)
		w.clock.SetTime(w.clock.Now().Add(awaitTime))
		w.wantAwaits("ten minutes later", false)
	})
	t.Run("not for a completed pod", func(t *testing.T) {
		w, victim, _ := begin(t)
		w.remove(victim) // as the informer shows it: without a deletion
		w.wantAwaits("the pod has completed, and keeps its claim", false)
	})
	t.Run("not for a volume that is too small", func(t *testing.T) {
		w, victim, volume := begin(t)
		w.put(pvc("c", "9Gi").Obj())
		w.put(terminatingPod(victim), volume.Phase(v1.VolumeReleased).Obj())
		w.wantAwaits("the volume is smaller than the claim", false)
	})
	t.Run("not for another node", func(t *testing.T) {
		w, _, _ := begin(t)
		w.put(localPV("w", "b", "5Gi").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).
			ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased).Obj())
		w.wantAwaits("a volume of another node is Released", false)
	})
	t.Run("from the preemption condition", func(t *testing.T) {
		w, victim, _ := begin(t)
		victim = victim.DeepCopy()
		victim.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
		w.put(victim)
		w.wantAwaits("the victim is about to be deleted", true)
	})
}

// TestAwaitsAfterRestart: the wait is derived from the objects again, in any order of
// events. Without such an object, pods that were nominated before wait a minute.
func TestAwaitsAfterRestart(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, change func(*testbed, *v1.Pod, *builders.PV)) *testbed {
		t.Parallel()
		before, victim, volume := ephemeralTestbed(t, v1.PersistentVolumeReclaimDelete)
		before.put(preemptor("c"))
		change(before, victim, volume)
		core, storage := before.factory.Core().V1(), before.factory.Storage().V1()
		w := newTestbed(t)
		w.hold()
		for _, store := range []interface{ List() []any }{
			core.Pods().Informer().GetStore(), core.PersistentVolumeClaims().Informer().GetStore(), core.PersistentVolumes().Informer().GetStore(),
			core.Nodes().Informer().GetStore(), storage.StorageClasses().Informer().GetStore(),
		} {
			for _, object := range store.List() {
				w.put(object.(runtime.Object))
			}
		}
		w.release()
		w.started.Do(w.inheritNominations)
		return w
	}
	stages := map[string]func(*testbed, *v1.Pod, *builders.PV){
		"the victim is being deleted": func(w *testbed, victim *v1.Pod, _ *builders.PV) { w.put(terminatingPod(victim)) },
		"the claim is being deleted": func(w *testbed, victim *v1.Pod, _ *builders.PV) {
			w.remove(victim)
			claim := w.claim("victim-scratch")
			claim.DeletionTimestamp = builders.MakePVC("x").Deleting().Obj().DeletionTimestamp
			w.put(claim)
		},
		"the volume is Released": func(w *testbed, victim *v1.Pod, volume *builders.PV) {
			w.remove(victim, w.claim("victim-scratch"))
			w.put(volume.Phase(v1.VolumeReleased).Obj())
		},
	}
	for name, change := range stages {
		t.Run(name, func(t *testing.T) {
			w := begin(t, change)
			w.clock.SetTime(w.clock.Now().Add(inheritTime))
			w.wantAwaits(name, true)
		})
	}
	t.Run("the volume is deleted", func(t *testing.T) {
		w := begin(t, func(w *testbed, victim *v1.Pod, volume *builders.PV) {
			w.remove(victim, w.claim("victim-scratch"), volume.Obj())
		})
		w.wantAwaits("at the start", true)
		w.clock.SetTime(w.clock.Now().Add(inheritTime))
		w.wantAwaits("a minute later", false)
	})
}

// TestAwaitsCapacity: a pod waits for bytes until capacity of the node is reported;
// reports of other nodes do not matter.
func TestAwaitsCapacity(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, dynamic("made", "csi"), tracked("csi"), node("a"), node("b"),
		builders.MakeCapacity("cap-a", "made").UID("cap-a").Hostname("a").Capacity("1Gi").Obj(),
		builders.MakeCapacity("cap-b", "made").UID("cap-b").Hostname("b").Capacity("1Gi").Obj(),
		pvc("c", "3Gi").Class("made").Obj())
	gone := localPV("v", "a", "5Gi").Class("made").CSI("csi", "v").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).
		ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased)
	w.put(gone.Obj(), preemptor("c"))
	w.wantAwaits("the volume is Released", true)
	w.remove(gone.Obj())
	w.wantAwaits("the volume is deleted", true)
	w.put(builders.MakeCapacity("cap-b", "made").UID("cap-b").Hostname("b").Capacity("2Gi").Obj())
	w.wantAwaits("capacity of another node was reported", true)
	w.put(builders.MakeCapacity("cap-a", "made").UID("cap-a").Hostname("a").Capacity("2Gi").Obj())
	w.wantAwaits("capacity of the node was reported, and is too little", false)
}

// TestWithhold: pods of lower rank than a nominated one do not get what it needs.
func TestWithhold(t *testing.T) {
	t.Parallel()
	low := func(priority int32) *v1.Pod {
		return builders.MakePod("low").Namespace("default").UID("pod-low").Priority(priority).PVC("low").Obj()
	}
	local := []runtime.Object{node("a"), node("b"), wffc("local"), pvc("c", "2Gi").Obj(), pvc("low", "1Gi").Obj()}
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		want    match.ReasonCode
		volume  string // that Reserve takes
	}{
		"the only volume":             {objects: []runtime.Object{localPV("v", "a", "2Gi").Obj()}, pod: low(1), want: match.NoVolume},
		"for a pod of equal priority": {objects: []runtime.Object{localPV("v", "a", "2Gi").Obj()}, pod: low(10), want: match.NoVolume},
		"not for a pod of higher priority": {
			objects: []runtime.Object{localPV("v", "a", "2Gi").Obj()}, pod: low(11), volume: "v",
		},
		"the other volume, though it is larger": {
			objects: []runtime.Object{localPV("v", "a", "2Gi").Obj(), localPV("w", "a", "3Gi").Obj()}, pod: low(1), volume: "w",
		},
		"a free volume while another is being reclaimed": {
			objects: []runtime.Object{pvc("d", "2Gi").Obj(), preemptor("c", "d"), localPV("v", "a", "2Gi").Obj(),
				localPV("back", "a", "2Gi").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased).Obj()},
			pod: low(1), want: match.NoVolume,
		},
		"nothing for a pod that its node cannot serve": {
			objects: []runtime.Object{pvc("d", "2Gi").Obj(), preemptor("c", "d"), localPV("v", "a", "2Gi").Obj()}, pod: low(1), volume: "v",
		},
		"nothing for a nominated pod that is being deleted": {
			objects: []runtime.Object{terminatingPod(preemptor("c")), localPV("v", "a", "2Gi").Obj()}, pod: low(1), volume: "v",
		},
		"for a claim with a selector": {
			objects: []runtime.Object{pvc("low", "1Gi").MatchLabel("tier", "gold").Obj(), localPV("v", "a", "2Gi").Label("tier", "gold").Obj()},
			pod:     low(1), want: match.NoVolume,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t)
			for _, object := range slices.Concat(local, []runtime.Object{preemptor("c")}, test.objects) {
				w.put(object.DeepCopyObject())
			}
			w.wantWithheld(test.pod, "a", test.want, test.volume)
		})
	}
}

// wantWithheld evaluates the pod on a node as a cycle does, and reserves.
func (w *testbed) wantWithheld(pod *v1.Pod, node string, want match.ReasonCode, volume string) {
	w.t.Helper()
	d := w.demand(pod)
	w.Withhold(d)
	object, err := w.nodes.Get(node)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := w.Fits(d, object).Code; got != want {
		w.t.Errorf("node %s: %q, want %q", node, got, want)
	}
	p, reason := w.Reserve(d, node)
	if reason.Code != want {
		w.t.Errorf("node %s: Reserve returns %q, want %q", node, reason.Code, want)
	}
	if want == match.Fits && volume != "" && p.Bindings[0].Volume.Name != volume {
		w.t.Errorf("node %s: Reserve chose %s, want %s", node, p.Bindings[0].Volume.Name, volume)
	}
	w.Release(pod.UID)
	w.check()
}

// TestWithholdFromOtherNodes: a volume of a zone is withheld on all nodes of the zone.
func TestWithholdFromOtherNodes(t *testing.T) {
	t.Parallel()
	zonal := func(name string) *v1.Node {
		return builders.MakeNode(name).Hostname(name).Zone("z").UID("node-" + name).Obj()
	}
	w := newTestbed(t, zonal("a"), zonal("b"), wffc("local"), pvc("c", "2Gi").Obj(), pvc("low", "1Gi").Obj(), preemptor("c"),
		localPV("v", "", "2Gi").Zone("z").Obj())
	low := pod("low", "low")
	w.wantWithheld(low, "b", match.NoVolume, "")
	w.put(localPV("w", "", "3Gi").Zone("z").Obj())
	w.wantWithheld(low, "b", match.Fits, "w")
	w.remove(preemptor("c"))
	w.wantWithheld(low, "b", match.Fits, "v")
}

// TestWithholdCapacity: bytes are withheld too.
func TestWithholdCapacity(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, dynamic("made", "csi"), tracked("csi"), node("a"),
		builders.MakeCapacity("cap", "made").UID("cap").Hostname("a").Capacity("10Gi").Obj(),
		pvc("c", "6Gi").Class("made").Obj(), pvc("four", "4Gi").Class("made").Obj(), pvc("five", "5Gi").Class("made").Obj(), preemptor("c"))
	w.wantWithheld(pod("low", "four"), "a", match.Fits, "")
	w.wantWithheld(pod("low", "five"), "a", match.NotEnoughSpace, "")
}

// TestTwoNominated: of two nominated pods that need the same volume one gets it.
func TestTwoNominated(t *testing.T) {
	t.Parallel()
	second := builders.MakePod("q").Namespace("default").UID("pod-q").Priority(10).PVC("low").NominatedNode("a").Obj()
	w := newTestbed(t, node("a"), wffc("local"), pvc("c", "2Gi").Obj(), pvc("low", "1Gi").Obj(), preemptor("c"), second,
		localPV("v", "a", "2Gi").Obj())
	w.wantWithheld(second, "a", match.NoVolume, "")
	w.wantWithheld(preemptor("c"), "a", match.Fits, "v")
	w.put(preemptor("c"), second)
	d := w.demand(preemptor("c"))
	if _, reason := w.Reserve(d, "a"); reason.Code != match.Fits {
		t.Fatal(reason)
	}
	if len(w.nominated) != 1 {
		t.Errorf("%d pods are nominated and have reserved nothing, want 1", len(w.nominated))
	}
}

func TestWithholdNothing(t *testing.T) { // not parallel: it counts allocations
	w := newTestbed(t, node("a"), wffc("local"), pvc("low", "1Gi").Obj(), localPV("v", "a", "2Gi").Obj())
	d := w.demand(pod("low", "low"))
	if allocs := testing.AllocsPerRun(100, func() { w.Withhold(d); w.Awaits(d) }); allocs != 0 {
		t.Errorf("%v allocations where no pod is nominated", allocs)
	}
}

// BenchmarkWithhold is the additional cost of PreFilter while pods wait for volumes.
func BenchmarkWithhold(b *testing.B) {
	w := newTestbed(b, wffc("local"))
	localTestbed(w, 1_000)
	w.put(pvc("low", "15Gi").Obj())
	for _, waiting := range []int{0, 1, maxAhead, 4 * maxAhead} {
		for i := len(w.nominated); i < waiting; i++ {
			name := "waiting-" + strconv.Itoa(i)
			w.put(pvc(name, "15Gi").Obj(), builders.MakePod(name).Namespace("default").UID(name).Priority(10).PVC(name).
				NominatedNode("node-"+strconv.Itoa(i%100)).Obj())
		}
		b.Run("waiting="+strconv.Itoa(waiting), func(b *testing.B) {
			b.ReportAllocs()
			d := w.demand(pod("low", "low"))
			for b.Loop() {
				w.Withhold(d)
			}
		})
	}
}
