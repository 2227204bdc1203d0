// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestWokenBeforeOwnHandler delays the cache's own handlers while an event
// wakes a pod: the hint's Observe call, or the node passed to Fits, suffices.
func TestWokenBeforeOwnHandler(t *testing.T) {
	t.Parallel()
	zonal := func(zone string) *v1.Node { return builders.MakeNode("a").Hostname("a").Zone(zone).UID("node-a").Obj() }
	tests := map[string]struct {
		before []runtime.Object
		event  runtime.Object
		hint   func(w *testbed)
		pod    *v1.Pod
	}{
		"a volume becomes available": {
			before: []runtime.Object{node("a"), wffc("local"), pvc("c", "1Gi").Obj(), localPV("v", "a", "1Gi").Phase(v1.VolumePending).Obj()},
			event:  localPV("v", "a", "1Gi").Obj(),
			hint:   func(w *testbed) { w.ObserveVolume("v") },
			pod:    pod("p", "c"),
		},
		"a volume became available before the pod was created": {
			before: []runtime.Object{node("a"), wffc("local"), pvc("c", "1Gi").Obj(), localPV("v", "a", "1Gi").Phase(v1.VolumePending).Obj()},
			event:  localPV("v", "a", "1Gi").Obj(),
			hint:   func(*testbed) {},
			pod:    pod("p", "c"),
		},
		"capacity grew before the pod was created": {
			before: []runtime.Object{node("a"), dynamic("local", "csi"), tracked("csi"), pvc("c", "5Gi").Obj(), builders.MakeCapacity("cap", "local").Namespace("kube-system").Hostname("a").Capacity("1Gi").Obj()},
			event:  builders.MakeCapacity("cap", "local").Namespace("kube-system").Hostname("a").Capacity("5Gi").Obj(),
			hint:   func(*testbed) {},
			pod:    pod("p", "c"),
		},
		"a claim is bound to a volume that the cache has not observed": {
			before: []runtime.Object{node("a"), wffc("local"), pvc("c", "1Gi").Bound("v").Obj()},
			event:  localPV("v", "a", "1Gi").Phase(v1.VolumeBound).ClaimRef("default", "c", "pvc-c").Obj(),
			hint:   func(*testbed) {},
			pod:    pod("p", "c"),
		},
		"a claim is created": {
			before: []runtime.Object{node("a"), wffc("local"), localPV("v", "a", "1Gi").Obj()},
			event:  pvc("c", "1Gi").Obj(),
			hint:   func(*testbed) {},
			pod:    pod("p", "c"),
		},
		"a node is created": {
			before: []runtime.Object{wffc("local"), pvc("c", "1Gi").Obj(), localPV("v", "a", "1Gi").Obj()},
			event:  node("a"),
			hint:   func(w *testbed) { w.ObserveNode("a") },
			pod:    pod("p", "c"),
		},
		"a node is created and Filter runs before the hint": {
			before: []runtime.Object{wffc("local"), pvc("c", "1Gi").Obj(), localPV("v", "a", "1Gi").Obj()},
			event:  node("a"),
			hint:   func(*testbed) {},
			pod:    pod("p", "c"),
		},
		"a node moves into the volume's zone": {
			before: []runtime.Object{zonal("x"), wffc("local"), pvc("c", "1Gi").Obj(), localPV("v", "", "1Gi").Zone("z").Obj()},
			event:  zonal("z"),
			hint:   func(*testbed) {},
			pod:    pod("p", "c"),
		},
		"a class allows the node": {
			before: []runtime.Object{zonal("z"), builders.MakeClass("local").BindingMode("WaitForFirstConsumer").Provisioner("csi").AllowedTopology(v1.LabelTopologyZone, "x").Obj(), pvc("c", "1Gi").Obj()},
			event:  builders.MakeClass("local").BindingMode("WaitForFirstConsumer").Provisioner("csi").AllowedTopology(v1.LabelTopologyZone, "x", "z").Obj(),
			hint:   func(*testbed) {},
			pod:    pod("p", "c"),
		},
		"capacity grows": {
			before: []runtime.Object{node("a"), dynamic("local", "csi"), tracked("csi"), pvc("c", "5Gi").Obj(), builders.MakeCapacity("cap", "local").Namespace("kube-system").Hostname("a").Capacity("1Gi").Obj()},
			event:  builders.MakeCapacity("cap", "local").Namespace("kube-system").Hostname("a").Capacity("5Gi").Obj(),
			hint:   func(w *testbed) { w.ObserveCapacity("kube-system", "cap") },
			pod:    pod("p", "c"),
		},
		"a driver stops tracking capacity": {
			before: []runtime.Object{node("a"), dynamic("local", "csi"), tracked("csi"), pvc("c", "5Gi").Obj()},
			event:  builders.MakeCSIDriver("csi").StorageCapacity(false).Obj(),
			hint:   func(*testbed) {},
			pod:    pod("p", "c"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, tc.before...)
			w.hold()
			w.put(tc.event)
			tc.hint(w)
			if got := w.fits(tc.pod, "a"); got != match.Fits {
				t.Fatalf("woken before the cache's handler ran: %q", got)
			}
			if w.reserve(tc.pod, "a") == nil {
				t.Fatal("Reserve rejects what Fits allows")
			}
			w.release()
			w.check()
		})
	}
}

// TestOldEventsAreIgnored: late and repeated events change nothing.
func TestOldEventsAreIgnored(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), wffc("local"), pvc("c", "1Gi").Obj())
	w.hold()
	w.put(localPV("v", "a", "1Gi").Obj())
	w.put(localPV("v", "a", "1Gi").ClaimRef("default", "other", "x").Obj())
	w.ObserveVolume("v")
	w.release() // delivers the previous state
	w.check()
	if got := w.fits(pod("p", "c"), "a"); got != match.NoVolume {
		t.Errorf("an old event made a claimed volume free: %q", got)
	}
	// Deleted and created again under the same name, observed by a hint first.
	w.hold()
	w.remove(localPV("v", "a", "1Gi").ClaimRef("default", "other", "x").ResourceVersion("5").Obj())
	w.put(localPV("v", "a", "1Gi").UID("pv-second").Obj())
	w.ObserveVolume("v")
	w.release()
	w.check()
	if got := w.fits(pod("p", "c"), "a"); got != match.Fits {
		t.Errorf("the late deletion of a volume of the same name removed the volume: %q", got)
	}
	// A late response to a write does not restore a deleted volume.
	gone := localPV("v", "a", "1Gi").UID("pv-second").Obj()
	w.remove(gone)
	gone.ResourceVersion = "9999"
	w.ApplyVolume(gone)
	w.check()
	if got := w.fits(pod("p", "c"), "a"); got != match.NoVolume {
		t.Errorf("a deleted volume was restored: %q", got)
	}
}

// TestEndBeforeOwnHandler delays the cache's handlers while an obstacle to scheduling a
// pod is removed. The pod is tried for another reason, and no event will
// wake it again.
func TestEndBeforeOwnHandler(t *testing.T) {
	t.Parallel()
	kept := localPV("kept", "b", "1Gi").ClaimRef("default", "c", "").Obj()
	sent := pvc("sent", "60Gi").SelectedNode("b").Obj()
	shared := []runtime.Object{
		dynamic("local", "csi"), tracked("csi"), builders.MakeCapacity("shared", "local").Everywhere().Capacity("100Gi").Obj(),
		pvc("c", "60Gi").Obj(), sent,
	}
	for name, tc := range map[string]struct {
		before []runtime.Object
		end    func(w *testbed)
		want   match.ReasonCode
	}{
		"a volume reserved for the claim on another node": {
			before: []runtime.Object{wffc("local"), pvc("c", "1Gi").Obj(), localPV("v", "a", "1Gi").Obj(), kept},
			end:    func(w *testbed) { w.remove(kept) },
			want:   match.ReservedVolumeMismatch,
		},
		"a claim that capacity was held for": {shared, func(w *testbed) { w.remove(sent) }, match.NotEnoughSpace},
		"a provisioner's work":               {shared, func(w *testbed) { w.put(pvc("sent", "60Gi").Obj()) }, match.NotEnoughSpace},
		"the selected node of a claim":       {shared, func(w *testbed) { w.remove(node("b")) }, match.NotEnoughSpace},
	} {
		t.Run(name, func(t *testing.T) { // not parallel: the cases share objects
			w := newTestbed(t, append([]runtime.Object{node("a"), node("b")}, tc.before...)...)
			p := pod("p", "c")
			if got := w.fits(p, "a"); got != tc.want {
				t.Fatalf("before the removal, Fits returns %q, want %q", got, tc.want)
			}
			w.hold()
			tc.end(w)
			if got := w.fits(p, "a"); got != match.Fits {
				t.Errorf("after the removal, Fits returns %q", got)
			}
			w.check()
			w.release()
			w.check()
		})
	}
}

// TestExpectedPod: a pod that the informer has not shown yet exists while the caller
// expects it and the informer does not show its deletion.
func TestExpectedPod(t *testing.T) {
	t.Parallel()
	p := pod("p")
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	tests := map[string]struct {
		do   func(w *testbed)
		want bool
	}{
		"neither shown nor expected":    {do: func(*testbed) {}},
		"it is expected":                {do: func(w *testbed) { w.ExpectPod(name, p.UID) }, want: true},
		"it is no longer expected":      {do: func(w *testbed) { w.ExpectPod(name, p.UID)() }},
		"its deletion was shown":        {do: func(w *testbed) { w.ExpectPod(name, p.UID); w.podDeleted(p) }},
		"it was shown, and is expected": {do: func(w *testbed) { w.put(p); w.ExpectPod(name, p.UID)() }, want: true},
		"another pod of its name is expected": {do: func(w *testbed) {
			w.ExpectPod(name, "other")
		}},
	}
	for title, tc := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t)
			tc.do(w)
			if got := w.PodExists(name, p.UID); got != tc.want {
				t.Errorf("PodExists: %t, want %t", got, tc.want)
			}
			w.check()
		})
	}
}
