// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestPlacedWithoutSecondEvent: the queue receives an event before the cache's own
// handlers do. The pod that it requeues must be placed at once: there may be no further
// event.
func TestPlacedWithoutSecondEvent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		resource    fwk.EventResource
		objects     []runtime.Object
		before, now runtime.Object
		want        map[string]string
	}{
		"a volume": {
			resource: fwk.PersistentVolume,
			objects:  []runtime.Object{node("a").Obj(), claim("c", "1Gi").Obj()},
			now:      volume("v", "a", "1Gi").Obj(),
			want:     map[string]string{"c": "v"},
		},
		"a volume that becomes Available": {
			resource: fwk.PersistentVolume,
			objects:  []runtime.Object{node("a").Obj(), claim("c", "1Gi").Obj()},
			before:   volume("v", "a", "1Gi").Phase(v1.VolumePending).Obj(),
			now:      volume("v", "a", "1Gi").Obj(),
			want:     map[string]string{"c": "v"},
		},
		"the volume of a bound claim": {
			resource: fwk.PersistentVolume,
			objects:  []runtime.Object{node("a").Obj(), claim("c", "1Gi").Bound("v").Obj()},
			now:      volume("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound).Obj(),
		},
		"a claim": {
			resource: fwk.PersistentVolumeClaim,
			objects:  []runtime.Object{node("a").Obj(), volume("v", "a", "1Gi").Obj()},
			now:      claim("c", "1Gi").Obj(),
			want:     map[string]string{"c": "v"},
		},
		"a claim whose provisioner removed selected-node": {
			resource: fwk.PersistentVolumeClaim,
			objects:  []runtime.Object{node("a").Obj(), node("b").Obj()},
			before:   claim("c", "1Gi").Class("csi").SelectedNode("b").Obj(),
			now:      claim("c", "1Gi").Class("csi").Obj(),
			want:     map[string]string{"c": "(provision)"},
		},
		"a node": {
			resource: fwk.Node,
			objects:  []runtime.Object{claim("c", "1Gi").Obj(), volume("v", "a", "1Gi").Obj(), node("b").Obj(), node("d").Obj()},
			now:      node("a").Obj(),
			want:     map[string]string{"c": "v"},
		},
		"a node's label": {
			resource: fwk.Node,
			objects:  []runtime.Object{claim("c", "1Gi").Obj(), volume("v", "", "1Gi").Zone("z").Obj(), node("b").Obj(), node("d").Obj()},
			before:   node("a").Obj(),
			now:      node("a").Zone("z").Obj(),
			want:     map[string]string{"c": "v"},
		},
		"a node for a bound claim": {
			resource: fwk.Node,
			objects: []runtime.Object{
				claim("c", "1Gi").Bound("v").Obj(), volume("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound).Obj(),
				node("b").Obj(), node("d").Obj(),
			},
			now: node("a").Obj(),
		},
		"capacity": {
			resource: fwk.CSIStorageCapacity,
			objects:  []runtime.Object{node("a").Obj(), csiDriver(true), claim("c", "1Gi").Class("csi").Obj()},
			now:      capacity("r", "a", "1Gi").Obj(),
			want:     map[string]string{"c": "(provision)"},
		},
		"more capacity": {
			resource: fwk.CSIStorageCapacity,
			objects:  []runtime.Object{node("a").Obj(), csiDriver(true), claim("c", "1Gi").Class("csi").Obj()},
			before:   capacity("r", "a", "1Mi").Obj(),
			now:      capacity("r", "a", "1Gi").Obj(),
			want:     map[string]string{"c": "(provision)"},
		},
		"a class": {
			resource: fwk.StorageClass,
			objects:  []runtime.Object{node("a").Obj(), claim("c", "1Gi").Class("late").Obj(), volume("v", "a", "1Gi").Class("late").Obj()},
			now:      builders.MakeClass("late").Obj(),
			want:     map[string]string{"c": "v"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, localClass().Obj(), csiClass().Obj())
			w.put(tc.objects...)
			action := fwk.Add
			if tc.before != nil {
				action = fwk.Update
				w.put(tc.before)
			}
			p := pod("p", "c")
			if w.fitsNodeA(p) {
				t.Fatal("the pod fits before the event")
			}
			before := w.stored(tc.before)
			w.hold()
			w.put(tc.now)
			hint, err := w.hint(tc.resource, action)(klog.Background(), p, untyped(before), untyped(w.stored(tc.now)))
			if err != nil || hint != fwk.Queue {
				t.Fatalf("hint returns %v, error %v; want Queue", hint, err)
			}
			if !w.fitsNodeA(p) {
				t.Fatal("the pod does not fit after the event")
			}
			c := w.begin(p)
			if status := c.reserve("a"); !status.IsSuccess() {
				t.Fatal(status)
			}
			if diff := cmp.Diff(tc.want, c.planned()); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
			w.release()
			w.check()
		})
	}
}

// fitsNodeA reports whether PreFilter and Filter admit the pod to node a.
func (w *testbed) fitsNodeA(p *v1.Pod) bool {
	w.t.Helper()
	if !w.cache.NodeExists("a") {
		return false
	}
	state := framework.NewCycleState()
	nodes, status := w.PreFilter(w.t.Context(), state, p, nil)
	return status.IsSuccess() && (nodes == nil || nodes.NodeNames.Has("a")) &&
		w.Filter(w.t.Context(), state, p, w.info("a")).IsSuccess()
}
