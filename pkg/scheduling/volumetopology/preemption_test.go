// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/testing/builders"
)

// holder is a pod of low priority on the node, with an ephemeral volume.
func holder(name, node string) *v1.Pod {
	return builders.MakePod(name).UID("pod-"+name).Node(node).Priority(1).Ephemeral("scratch", claim("", "1Gi").Obj()).Obj()
}

// held are the claim and the volume of a holder.
func held(by *v1.Pod, pv *builders.PV) []runtime.Object {
	name := by.Name + "-scratch"
	object := pv.ClaimRef("default", name, "pvc-"+name).Phase(v1.VolumeBound).Obj()
	return []runtime.Object{by, object, claim(name, "1Gi").Class(object.Spec.StorageClassName).Bound(object.Name).OwnedBy(by).Obj()}
}

func deleted(name, node, size string) *builders.PV {
	return volume(name, node, size).ReclaimPolicy(v1.PersistentVolumeReclaimDelete)
}

func important(name string, claims ...string) *v1.Pod {
	return builders.MakePod(name).UID("pod-" + name).Priority(10).PVC(claims...).Obj()
}

// TestEvictionHelps: only where evicting pods can free what the pod needs does
// the scheduler look into preemption.
func TestEvictionHelps(t *testing.T) {
	t.Parallel()
	victim := holder("victim", "a")
	base := []runtime.Object{localClass().Obj(), csiClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "2Gi").Obj(), claim("d", "2Gi").Obj()}
	plain := func(p *v1.Pod) *v1.Pod { // the claim is not the pod's own
		p.Spec.Volumes = builders.MakePod("").PVC(p.Name + "-scratch").Obj().Spec.Volumes
		return p
	}
	prioritized := func(p *v1.Pod, priority int32) *v1.Pod {
		p = p.DeepCopy()
		p.Spec.Priority = &priority
		return p
	}
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		others  []*v1.Pod
		want    fwk.Code
	}{
		"the volume would be deleted and made anew, and suffices": {
			objects: held(victim, deleted("v", "a", "2Gi")), pod: important("p", "c"), others: []*v1.Pod{victim}, want: fwk.Unschedulable,
		},
		"the volume would be kept": {
			objects: held(victim, volume("v", "a", "2Gi")), pod: important("p", "c"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
		"the volume would not suffice": {
			objects: held(victim, deleted("v", "a", "1Gi")), pod: important("p", "c"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
		"the volume is of another class": {
			objects: held(victim, deleted("v", "a", "2Gi").Class("else")), pod: important("p", "c"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
		"the other pod is as important": {
			objects: held(victim, deleted("v", "a", "2Gi")), pod: important("p", "c"), others: []*v1.Pod{prioritized(victim, 10)}, want: fwk.UnschedulableAndUnresolvable,
		},
		"the claim outlives the other pod": {
			objects: held(victim, deleted("v", "a", "2Gi")), pod: important("p", "c"), others: []*v1.Pod{plain(victim.DeepCopy())}, want: fwk.UnschedulableAndUnresolvable,
		},
		"nobody is on the node": {
			objects: held(victim, deleted("v", "a", "2Gi")), pod: important("p", "c"), want: fwk.UnschedulableAndUnresolvable,
		},
		"two claims, of which eviction serves one": {
			objects: held(victim, deleted("v", "a", "2Gi")), pod: important("p", "c", "d"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
		"two claims, of which a free volume serves the other": {
			objects: append(held(victim, deleted("v", "a", "2Gi")), volume("free", "a", "2Gi").Obj()),
			pod:     important("p", "c", "d"), others: []*v1.Pod{victim}, want: fwk.Unschedulable,
		},
		"two pods have to go": {
			objects: append(held(victim, deleted("v", "a", "2Gi")), held(holder("second", "a"), deleted("w", "a", "2Gi"))...),
			pod:     important("p", "c", "d"), others: []*v1.Pod{victim, holder("second", "a")}, want: fwk.Unschedulable,
		},
		"another bound claim of the pod cannot be reached from here": {
			objects: append(held(victim, deleted("v", "a", "2Gi")), claim("far", "1Gi").Bound("far").Obj(),
				volume("far", "b", "1Gi").ClaimRef("default", "far", "pvc-far").Obj()),
			pod: important("p", "c", "far"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
		"capacity would come back": {
			objects: append(held(victim, deleted("v", "a", "50Gi").Class("csi").CSI(driver, "1")),
				csiDriver(true), room("r", "a", "10Gi").Obj(), claim("made", "60Gi").Class("csi").Obj()),
			pod: important("p", "made"), others: []*v1.Pod{victim}, want: fwk.Unschedulable,
		},
		"too little capacity would come back": {
			objects: append(held(victim, deleted("v", "a", "49Gi").Class("csi").CSI(driver, "1")),
				csiDriver(true), room("r", "a", "10Gi").Obj(), claim("made", "60Gi").Class("csi").Obj()),
			pod: important("p", "made"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, base...)
			w.put(tc.objects...)
			c := w.begin(tc.pod)
			if got := c.filter("a", tc.others...); got.Code() != tc.want {
				t.Errorf("status %v, want %v", got.Code(), tc.want)
			}
		})
	}
}

// TestDryRun: preemption removes all pods that may go, then spares those that
// need not, on a clone of the state.
func TestDryRun(t *testing.T) {
	t.Parallel()
	one, two := holder("one", "a"), holder("two", "a")
	w := newWorld(t, localClass().Obj(), node("a").Obj(), claim("c", "2Gi").Obj())
	w.put(held(one, deleted("small", "a", "1Gi"))...)
	w.put(held(two, deleted("large", "a", "2Gi"))...)
	c := w.begin(important("p", "c"))
	original := c.state
	dry := &cycle{world: w, state: original.Clone(), pod: c.pod}
	info := func(p *v1.Pod) fwk.PodInfo {
		i, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	step := func(what string, status *fwk.Status, fits bool) {
		t.Helper()
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		if got := dry.filter("a", one, two).IsSuccess(); got != fits {
			t.Errorf("%s: fits %t, want %t", what, got, fits)
		}
		if c.filter("a").IsSuccess() {
			t.Errorf("%s: the pod fits in earnest", what)
		}
		w.check()
	}
	ctx, nodeInfo := t.Context(), w.info("a", one, two)
	step("one goes", w.RemovePod(ctx, dry.state, c.pod, info(one), nodeInfo), false)
	step("both go", w.RemovePod(ctx, dry.state, c.pod, info(two), nodeInfo), true)
	step("one stays", w.AddPod(ctx, dry.state, c.pod, info(one), nodeInfo), true)
	step("both stay", w.AddPod(ctx, dry.state, c.pod, info(two), nodeInfo), false)
	step("a stranger stays", w.AddPod(ctx, dry.state, c.pod, info(pod("stranger")), nodeInfo), false)
	step("two goes", w.RemovePod(ctx, dry.state, c.pod, info(two), nodeInfo), true)

	clone := &cycle{world: w, state: dry.state.Clone(), pod: c.pod}
	if status := w.AddPod(ctx, clone.state, c.pod, info(two), nodeInfo); !status.IsSuccess() {
		t.Fatal(status)
	}
	if clone.filter("a").IsSuccess() || !dry.filter("a").IsSuccess() {
		t.Error("a clone shares what would be evicted")
	}
}

// TestOneVictimOnly: from the moment that a victim is being deleted until its volume is
// back, plugins that come after ours are not asked for another one, and the nomination
// stays.
func TestOneVictimOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, localClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "1Gi").Obj())
	victim, spared := holder("victim", "a"), holder("spared", "b")
	w.put(held(victim, deleted("v", "a", "1Gi"))...)
	w.put(held(spared, deleted("w", "b", "1Gi"))...)
	p := important("p", "c")
	w.begin(p) // else it would have been nominated before the engine started
	p.Status.NominatedNodeName = "a"
	w.put(p)

	claimed := claim("victim-scratch", "1Gi").Bound("v").OwnedBy(victim)
	used := deleted("v", "a", "1Gi").ClaimRef("default", "victim-scratch", "pvc-victim-scratch")
	leaving := builders.MakePod("victim").UID("pod-victim").Node("a").Priority(1).Deleting().Ephemeral("scratch", claim("", "1Gi").Obj()).Obj()
	steps := []struct {
		what  string
		do    func()
		waits bool
	}{
		{"the victim is being deleted", func() { w.put(leaving) }, true},
		{"the victim is gone, and its claim is not deleted yet", func() { w.remove(leaving) }, true},
		{"the claim is being deleted", func() { w.put(claimed.Deleting().Obj()) }, true},
		{"the claim is gone, and the volume not released yet", func() { w.remove(claimed.Obj()) }, true},
		{"the volume is released", func() { w.put(used.Phase(v1.VolumeReleased).Obj()) }, true},
		{"the volume is gone, the disk is being cleaned", func() { w.remove(used.Obj()) }, true},
		{"a volume on the other node is released", func() {
			w.put(deleted("x", "b", "1Gi").ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased).Obj())
		}, true},
		{"the disk is back, and another pod has it", func() {
			w.put(deleted("v2", "a", "1Gi").Obj())
			w.put(claim("quick", "1Gi").Bound("v2").Obj())
			w.put(deleted("v2", "a", "1Gi").ClaimRef("default", "quick", "pvc-quick").Phase(v1.VolumeBound).Obj())
		}, false},
	}
	for _, step := range steps {
		step.do()
		c, other := w.begin(p), fwk.Unschedulable
		if step.waits {
			other = fwk.UnschedulableAndUnresolvable
		}
		if got := c.filter("b", spared); got.Code() != other {
			t.Errorf("%s: the other node says %v, want %v", step.what, got.Code(), other)
		}
		statuses := framework.NewDefaultNodeToStatus()
		for _, name := range []string{"a", "b"} {
			statuses.Set(name, c.filter(name).WithPlugin(Name))
		}
		next := &evicting{}
		result, status := c.postFilter(next, statuses)
		if next.ran == step.waits {
			t.Errorf("%s: the next plugin ran: %t, want %t", step.what, next.ran, !step.waits)
		}
		if step.waits && (result != nil || status.Code() != fwk.UnschedulableAndUnresolvable) {
			t.Errorf("%s: result %v, status %v; want none, which keeps the nomination, and UnschedulableAndUnresolvable", step.what, result, status)
		}
		w.check()
	}
}

// TestNominatedNodeRuledOut: nothing is waited for on a node that another plugin rejects
// for good.
func TestNominatedNodeRuledOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, localClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "1Gi").Obj(),
		deleted("v", "a", "1Gi").ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased).Obj())
	w.put(held(holder("spared", "b"), deleted("w", "b", "1Gi"))...)
	p := important("p", "c")
	p.Status.NominatedNodeName = "a"
	for code, wantRan := range map[fwk.Code]bool{fwk.Unschedulable: false, fwk.UnschedulableAndUnresolvable: true} {
		statuses := framework.NewDefaultNodeToStatus()
		statuses.Set("a", fwk.NewStatus(code).WithPlugin("NodeUnschedulable"))
		next := &evicting{}
		if w.begin(p).postFilter(next, statuses); next.ran != wantRan {
			t.Errorf("the node says %v: the next plugin ran: %t, want %t", code, next.ran, wantRan)
		}
	}
}

// TestNothingAwaited: a pod that has not preempted anybody waits for nothing,
// whoever else is gone.
func TestNothingAwaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, localClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "1Gi").Obj(),
		deleted("v", "a", "1Gi").ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased).Obj())
	spared := holder("spared", "b")
	w.put(held(spared, deleted("w", "b", "1Gi"))...)
	if got := w.begin(important("p", "c")).filter("b", spared); got.Code() != fwk.Unschedulable {
		t.Errorf("status %v, want Unschedulable", got.Code())
	}
}

// TestWithheldUntilNominationEnds: a pod of lower priority does not get the volume of a
// nominated pod, and is tried again when that one is gone.
func TestWithheldUntilNominationEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, localClass().Obj(), node("a").Obj(), claim("c", "1Gi").Obj(), claim("low", "1Gi").Obj(), volume("v", "a", "1Gi").Obj())
		first, low := important("p", "c"), pod("low", "low")
		first.Status.NominatedNodeName, low.Spec.SchedulerName = "a", "profile"
		w.put(first, low)
		if got := w.begin(low).filter("a"); got.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("the volume of a nominated pod: status %v, want UnschedulableAndUnresolvable", got.Code())
		}
		if got := w.begin(first).filter("a"); !got.IsSuccess() {
			t.Errorf("the nominated pod itself: %v", got)
		}
		w.remove(first)
		if got, want := <-w.activated, "default/low"; got != want {
			t.Errorf("pod %s is tried again when the nominated one is gone, want %s", got, want)
		}
		if got := w.begin(low).filter("a"); !got.IsSuccess() {
			t.Errorf("after the nominated pod: %v", got)
		}
	})
}
