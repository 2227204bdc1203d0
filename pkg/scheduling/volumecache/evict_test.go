// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// ephemeralTestbed has a pod "victim" on node a whose ephemeral claim has the
// only volume there.
func ephemeralTestbed(t *testing.T, policy v1.PersistentVolumeReclaimPolicy) (w *testbed, victim *v1.Pod, volume *builders.PV) {
	t.Helper()
	template := pvc("any", "1Gi").Obj()
	victim = builders.MakePod("victim").Namespace("default").UID("pod-victim").Node("a").Ephemeral("scratch", template).Obj()
	volume = localPV("v", "a", "5Gi").ReclaimPolicy(policy).Phase(v1.VolumeBound).ClaimRef("default", "victim-scratch", "pvc-victim-scratch")
	w = newTestbed(t, node("a"), node("b"), wffc("local"), pvc("c", "2Gi").Obj(), pvc("huge", "9Gi").Obj(),
		pvc("victim-scratch", "1Gi").OwnedBy(victim).Bound("v").Obj(), volume.Obj(), victim)
	return w, victim, volume
}

func TestSimulateEviction(t *testing.T) {
	t.Parallel()
	w, victim, _ := ephemeralTestbed(t, v1.PersistentVolumeReclaimDelete)
	freed := w.Evictable(victim)
	if len(freed) != 1 {
		t.Fatalf("evicting the victim frees %d volumes", len(freed))
	}
	for claim, want := range map[string]match.ReasonCode{"c": match.Fits, "huge": match.NoVolume} {
		demand := w.demand(pod("p", claim))
		simulated := demand.Clone()
		simulated.SimulateEviction("a", freed)
		for _, object := range nodesOf(w) {
			want := want
			if object.Name != "a" {
				want = match.NoVolume
			}
			if got := w.Fits(simulated, object).Code; got != want {
				t.Errorf("claim %s, node %s without the victim: %q, want %q", claim, object.Name, got, want)
			}
			if got := w.Fits(demand, object).Code; got != match.NoVolume {
				t.Errorf("claim %s, node %s: the simulation changed the original demand: %q", claim, object.Name, got)
			}
		}
		simulated.UndoEviction("a", victim.UID)
		if len(simulated.evictions) != 0 {
			t.Errorf("evictions after UndoEviction: %v, want none", simulated.evictions)
		}
	}
}

func TestEvictableNothing(t *testing.T) { // not parallel: it counts allocations
	w, victim, _ := ephemeralTestbed(t, v1.PersistentVolumeReclaimRetain)
	if freed := w.Evictable(victim); len(freed) != 0 {
		t.Errorf("a retained volume counts as freed: %v", freed)
	}
	other := pod("other", "victim-scratch")
	if allocs := testing.AllocsPerRun(100, func() { w.Evictable(other) }); allocs != 0 {
		t.Errorf("%v allocations for a pod that has no ephemeral volumes", allocs)
	}
	plain := newTestbed(t, node("a"), wffc("local"))
	if allocs := testing.AllocsPerRun(100, func() { plain.Evictable(victim) }); allocs != 0 {
		t.Errorf("%v allocations where no pod has ephemeral claims", allocs)
	}
}

func TestSimulateEvictionOfCapacity(t *testing.T) {
	t.Parallel()
	w, victim, _ := ephemeralTestbed(t, v1.PersistentVolumeReclaimDelete)
	w.put(dynamic("local", "csi"), tracked("csi"), builders.MakeCapacity("cap", "local").Hostname("a").Capacity("1Gi").Obj())
	demand := w.demand(pod("p", "c"))
	object := nodesOf(w)[0]
	for _, o := range nodesOf(w) {
		if o.Name == "a" {
			object = o
		}
	}
	if got := w.Fits(demand, object).Code; got != match.NotEnoughSpace {
		t.Errorf("with the victim: %q", got)
	}
	simulated := demand.Clone()
	simulated.SimulateEviction("a", w.Evictable(victim))
	if got := w.Fits(simulated, object).Code; got != match.Fits {
		t.Errorf("without the victim: %q", got)
	}
}
