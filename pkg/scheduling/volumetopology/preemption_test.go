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

// TestEvictionHelps: the scheduler considers preemption only if evicting pods can free
// what the pod needs.
func TestEvictionHelps(t *testing.T) {
	t.Parallel()
	victim := holder("victim", "a")
	base := []runtime.Object{localClass().Obj(), csiClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "2Gi").Obj(), claim("d", "2Gi").Obj()}
	plain := func(p *v1.Pod) *v1.Pod { // the pod does not own the claim
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
		"the volume would be deleted and recreated, and suffices": {
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
		"no pod is on the node": {
			objects: held(victim, deleted("v", "a", "2Gi")), pod: important("p", "c"), want: fwk.UnschedulableAndUnresolvable,
		},
		"two claims, of which eviction serves one": {
			objects: held(victim, deleted("v", "a", "2Gi")), pod: important("p", "c", "d"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
		"two claims, of which a free volume serves the other": {
			objects: append(held(victim, deleted("v", "a", "2Gi")), volume("free", "a", "2Gi").Obj()),
			pod:     important("p", "c", "d"), others: []*v1.Pod{victim}, want: fwk.Unschedulable,
		},
		"two pods have to be evicted": {
			objects: append(held(victim, deleted("v", "a", "2Gi")), held(holder("second", "a"), deleted("w", "a", "2Gi"))...),
			pod:     important("p", "c", "d"), others: []*v1.Pod{victim, holder("second", "a")}, want: fwk.Unschedulable,
		},
		"another bound claim's volume is not reachable from the node": {
			objects: append(held(victim, deleted("v", "a", "2Gi")), claim("far", "1Gi").Bound("far").Obj(),
				volume("far", "b", "1Gi").ClaimRef("default", "far", "pvc-far").Obj()),
			pod: important("p", "c", "far"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
		"enough capacity would be freed": {
			objects: append(held(victim, deleted("v", "a", "50Gi").Class("csi").CSI(driver, "1")),
				csiDriver(true), capacity("r", "a", "10Gi").Obj(), claim("made", "60Gi").Class("csi").Obj()),
			pod: important("p", "made"), others: []*v1.Pod{victim}, want: fwk.Unschedulable,
		},
		"too little capacity would be freed": {
			objects: append(held(victim, deleted("v", "a", "49Gi").Class("csi").CSI(driver, "1")),
				csiDriver(true), capacity("r", "a", "10Gi").Obj(), claim("made", "60Gi").Class("csi").Obj()),
			pod: important("p", "made"), others: []*v1.Pod{victim}, want: fwk.UnschedulableAndUnresolvable,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, base...)
			w.put(tc.objects...)
			c := w.begin(tc.pod)
			if got := c.filter("a", tc.others...); got.Code() != tc.want {
				t.Errorf("status %v, want %v", got.Code(), tc.want)
			}
		})
	}
}

// TestDryRun: preemption removes all pods of lower priority, then reprieves those that
// need not be evicted, on a clone of the state.
func TestDryRun(t *testing.T) {
	t.Parallel()
	one, two := holder("one", "a"), holder("two", "a")
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), claim("c", "2Gi").Obj())
	w.put(held(one, deleted("small", "a", "1Gi"))...)
	w.put(held(two, deleted("large", "a", "2Gi"))...)
	c := w.begin(important("p", "c"))
	original := c.state
	dry := &cycle{testbed: w, state: original.Clone(), pod: c.pod}
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
			t.Errorf("%s: the original state was changed", what)
		}
		w.check()
	}
	ctx, nodeInfo := t.Context(), w.info("a", one, two)
	step("remove one", w.RemovePod(ctx, dry.state, c.pod, info(one), nodeInfo), false)
	step("remove two", w.RemovePod(ctx, dry.state, c.pod, info(two), nodeInfo), true)
	step("add one", w.AddPod(ctx, dry.state, c.pod, info(one), nodeInfo), true)
	step("add two", w.AddPod(ctx, dry.state, c.pod, info(two), nodeInfo), false)
	step("add a pod that was not removed", w.AddPod(ctx, dry.state, c.pod, info(pod("other")), nodeInfo), false)
	step("remove two again", w.RemovePod(ctx, dry.state, c.pod, info(two), nodeInfo), true)

	clone := &cycle{testbed: w, state: dry.state.Clone(), pod: c.pod}
	if status := w.AddPod(ctx, clone.state, c.pod, info(two), nodeInfo); !status.IsSuccess() {
		t.Fatal(status)
	}
	if clone.filter("a").IsSuccess() || !dry.filter("a").IsSuccess() {
		t.Error("a clone shares the simulated evictions")
	}
}

// TestOneVictimOnly: from the deletion of a victim until its volume is available again,
// later plugins are not called to evict another one, and the nomination stays.
func TestOneVictimOnly(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "1Gi").Obj())
	victim, spared := holder("victim", "a"), holder("spared", "b")
	w.put(held(victim, deleted("v", "a", "1Gi"))...)
	w.put(held(spared, deleted("w", "b", "1Gi"))...)
	p := important("p", "c")
	w.begin(p) // else it would have been nominated before the cache started
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
		{"the victim is deleted, its claim is not", func() { w.remove(leaving) }, true},
		{"the claim is being deleted", func() { w.put(claimed.Deleting().Obj()) }, true},
		{"the claim is deleted, the volume is not released", func() { w.remove(claimed.Obj()) }, true},
		{"the volume is released", func() { w.put(used.Phase(v1.VolumeReleased).Obj()) }, true},
		{"the volume is deleted, the disk is being cleaned", func() { w.remove(used.Obj()) }, true},
		{"a volume on the other node is released", func() {
			w.put(deleted("x", "b", "1Gi").ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased).Obj())
		}, true},
		{"the disk is published again, and another pod has it", func() {
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
			t.Errorf("%s: the other node returns %v, want %v", step.what, got.Code(), other)
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

// TestNominatedNodeRuledOut: the pod does not wait for a node that another plugin rejects
// regardless of evictions.
func TestNominatedNodeRuledOut(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "1Gi").Obj(),
		deleted("v", "a", "1Gi").ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased).Obj())
	w.put(held(holder("spared", "b"), deleted("w", "b", "1Gi"))...)
	p := important("p", "c")
	p.Status.NominatedNodeName = "a"
	for code, wantRan := range map[fwk.Code]bool{fwk.Unschedulable: false, fwk.UnschedulableAndUnresolvable: true} {
		statuses := framework.NewDefaultNodeToStatus()
		statuses.Set("a", fwk.NewStatus(code).WithPlugin("NodeUnschedulable"))
		next := &evicting{}
		if w.begin(p).postFilter(next, statuses); next.ran != wantRan {
			t.Errorf("the node returns %v: the next plugin ran: %t, want %t", code, next.ran, wantRan)
		}
	}
}

// TestNotNominated: a pod that is not nominated does not wait for volumes of others.
func TestNotNominated(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "1Gi").Obj(),
		deleted("v", "a", "1Gi").ClaimRef("default", "old", "pvc-old").Phase(v1.VolumeReleased).Obj())
	spared := holder("spared", "b")
	w.put(held(spared, deleted("w", "b", "1Gi"))...)
	if got := w.begin(important("p", "c")).filter("b", spared); got.Code() != fwk.Unschedulable {
		t.Errorf("status %v, want Unschedulable", got.Code())
	}
}

// TestWithheldUntilNominationEnds: a pod of lower priority does not get the volume of a
// nominated pod, and is activated when that pod is deleted.
func TestWithheldUntilNominationEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestbed(t, localClass().Obj(), node("a").Obj(), claim("c", "1Gi").Obj(), claim("low", "1Gi").Obj(), volume("v", "a", "1Gi").Obj())
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
			t.Errorf("pod %s is activated when the nominated one is deleted, want %s", got, want)
		}
		if got := w.begin(low).filter("a"); !got.IsSuccess() {
			t.Errorf("after the deletion of the nominated pod: %v", got)
		}
	})
}
