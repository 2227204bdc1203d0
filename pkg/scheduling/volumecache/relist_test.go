// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// BenchmarkRelist is the cost of the first Demand after a watch was interrupted and
// everything was listed again, unchanged: it catches up with 50,000 objects that the
// handlers have not processed.
func BenchmarkRelist(b *testing.B) {
	const objects = 50_000
	core := func(w *testbed) cache.Store { return w.factory.Core().V1().PersistentVolumes().Informer().GetStore() }
	for name, kind := range map[string]struct {
		build func(*testbed, int)
		store func(*testbed) cache.Store
	}{
		"volumes": {localTestbed, core},
		"nodes": {capacityTestbed, func(w *testbed) cache.Store {
			return w.factory.Core().V1().Nodes().Informer().GetStore()
		}},
		"capacities": {capacityTestbed, func(w *testbed) cache.Store {
			return w.factory.Storage().V1().CSIStorageCapacities().Informer().GetStore()
		}},
	} {
		b.Run(name, func(b *testing.B) {
			w := newTestbed(b, wffc("local"), pvc("c", "1Gi").Obj())
			kind.build(w, objects)
			p := pod("p", "c")
			w.demand(p)
			all := kind.store(w).List()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				relist(b, kind.store(w), all)
				b.StartTimer()
				w.demand(p)
			}
		})
	}
}

// relist updates a store with objects, which may be unchanged.
func relist(t testing.TB, store cache.Store, objects []any) {
	t.Helper()
	for _, object := range objects {
		if err := store.Update(object); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRelisted: after a watch was interrupted, unchanged objects are not processed again,
// and changed or deleted ones are. Nodes are indexed by their new objects.
func TestRelisted(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, wffc("local"), node("a"), localPV("v", "a", "1Gi").Obj(), localPV("gone", "a", "1Gi").Obj(), localPV("grown", "a", "1Gi").Obj())
	volumes := w.factory.Core().V1().PersistentVolumes().Informer().GetStore()
	w.demand(pod("p"))
	w.hold()
	relist(t, volumes, volumes.List())
	w.put(localPV("grown", "a", "2Gi").Obj())
	w.remove(localPV("gone", "a", "1Gi").Obj())
	w.put(node("b"))
	for name, want := range map[string]bool{"v": true, "gone": false, "grown": false, "never": true} {
		if got := w.volumeCurrent(types.NamespacedName{Name: name}); got != want {
			t.Errorf("volume %q matches the store: %t, want %t", name, got, want)
		}
	}
	for name, want := range map[string]bool{"a": true, "b": false, "never": true} {
		if got := w.nodeCurrent(types.NamespacedName{Name: name}); got != want {
			t.Errorf("node %q matches the store: %t, want %t", name, got, want)
		}
	}
	w.demand(pod("p"))
	for _, name := range []string{"v", "gone", "grown"} {
		if !w.volumeCurrent(types.NamespacedName{Name: name}) {
			t.Errorf("volume %q does not match the store after Demand", name)
		}
	}
	w.release()
	again := nodesOf(w)[0].DeepCopy()
	relist(t, w.factory.Core().V1().Nodes().Informer().GetStore(), []any{again})
	w.nodeUpdated(again)
	if w.index.NodeByObject(again) == nil {
		t.Error("a node is not indexed by the object that was listed last")
	}
	w.check()
}
