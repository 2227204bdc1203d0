// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// TestReserve: what is reserved is not available to other pods until it is released,
// however often.
func TestReserve(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		objects []runtime.Object
		mine    []string
		theirs  []string
		want    map[string]string
	}{
		"existing volumes": {
			objects: []runtime.Object{
				volume("v", "a", "1Gi").Obj(), volume("w", "a", "2Gi").Obj(), volume("x", "b", "1Gi").Obj(),
				claim("c", "1Gi").Obj(), claim("d", "2Gi").Obj(), claim("e", "1Gi").Obj(),
			},
			mine: []string{"c", "d"}, theirs: []string{"e"},
			want: map[string]string{"c": "v", "d": "w"},
		},
		"capacity": {
			objects: []runtime.Object{
				csiDriver(true), capacity("r", "a", "100Gi").Obj(), claim("c", "60Gi").Class("csi").Obj(), claim("d", "60Gi").Class("csi").Obj(),
			},
			mine: []string{"c"}, theirs: []string{"d"},
			want: map[string]string{"c": "(provision)"},
		},
		"an existing volume and capacity": {
			objects: []runtime.Object{
				csiDriver(true), capacity("r", "a", "100Gi").Obj(), volume("v", "a", "1Gi").Obj(),
				claim("c", "60Gi").Class("csi").Obj(), claim("d", "60Gi").Class("csi").Obj(), claim("e", "1Gi").Obj(),
			},
			mine: []string{"c", "e"}, theirs: []string{"d"},
			want: map[string]string{"c": "(provision)", "e": "v"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, localClass().Obj(), csiClass().Obj(), node("a").Obj(), node("b").Obj())
			w.put(tc.objects...)
			mine, theirs := w.begin(pod("mine", tc.mine...)), w.begin(pod("theirs", tc.theirs...))
			othersFit := func(want bool) {
				t.Helper()
				if got := theirs.filter("a").IsSuccess(); got != want {
					t.Errorf("another pod fits: %t, want %t", got, want)
				}
			}
			reserve := func() {
				t.Helper()
				if status := mine.reserve("a"); !status.IsSuccess() {
					t.Fatal(status)
				}
				if diff := cmp.Diff(tc.want, mine.planned()); diff != "" {
					t.Errorf("reserved (-want +got):\n%s", diff)
				}
			}
			othersFit(true)
			reserve()
			othersFit(false)
			mine.unreserve("a")
			othersFit(true)
			if got := mine.planned(); got != nil {
				t.Errorf("a plan is left after Unreserve: %v", got)
			}
			reserve()
			othersFit(false)
			reserve() // without Unreserve in between
			othersFit(false)
			mine.unreserve("a")
			mine.unreserve("a")
			othersFit(true)
		})
	}
}

// TestReserveElsewhere: a second Reserve on another node replaces the first.
func TestReserveElsewhere(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), node("b").Obj(),
		volume("v", "a", "1Gi").Obj(), volume("x", "b", "1Gi").Obj(), claim("c", "1Gi").Obj(), claim("d", "1Gi").Obj())
	mine, theirs := w.begin(pod("mine", "c")), w.begin(pod("theirs", "d"))
	for _, node := range []string{"a", "b"} {
		if status := mine.reserve(node); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	if diff := cmp.Diff(map[string]string{"c": "x"}, mine.planned()); diff != "" {
		t.Errorf("reserved (-want +got):\n%s", diff)
	}
	for node, want := range map[string]bool{"a": true, "b": false} {
		if got := theirs.filter(node).IsSuccess(); got != want {
			t.Errorf("another pod fits node %s: %t, want %t", node, got, want)
		}
	}
}

// TestReserveTooLate: another pod took the volume after Filter. The pod is retried
// without waiting for an event, hence an error.
func TestReserveTooLate(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), volume("v", "a", "1Gi").Obj(), claim("c", "1Gi").Obj(), claim("d", "1Gi").Obj())
	first, second := w.begin(pod("first", "c")), w.begin(pod("second", "d"))
	if status := second.filter("a"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := first.reserve("a"); !status.IsSuccess() {
		t.Fatal(status)
	}
	const want = `volumes on node "a" changed while the pod was being scheduled: node(s) didn't find available persistent volumes to bind`
	if status := second.reserve("a"); status.Code() != fwk.Error || status.Message() != want {
		t.Errorf("status %v %q, want an error %q", status.Code(), status.Message(), want)
	}
	if status := w.PreFlight(t.Context(), second.state, second.pod, "a"); !status.IsSkip() {
		t.Errorf("PreBindPreFlight of a pod without reservation: %v", status)
	}
}

// TestReserveAgainTooLate: a second Reserve fails, and nothing of the first may be
// written.
func TestReserveAgainTooLate(t *testing.T) {
	t.Parallel()
	only := volume("v", "a", "1Gi").Obj()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), only, claim("c", "1Gi").Obj())
	c := w.begin(pod("p", "c"))
	if status := c.reserve("a"); !status.IsSuccess() {
		t.Fatal(status)
	}
	w.remove(only)
	if status := c.reserve("a"); status.Code() != fwk.Error {
		t.Errorf("status %v, want an error", status)
	}
	if got := c.planned(); got != nil {
		t.Errorf("a plan is left: %v", got)
	}
}

// TestPreBindPreFlight: PreBind is called only if there is something to write.
func TestPreBindPreFlight(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), volume("v", "a", "1Gi").Obj(), claim("c", "1Gi").Obj(),
		claim("bound", "1Gi").Bound("taken").Obj(), volume("taken", "a", "1Gi").ClaimRef("default", "bound", "pvc-bound").Obj())
	for claim, skip := range map[string]bool{"c": false, "bound": true} {
		c := w.begin(pod("p-"+claim, claim))
		if status := c.reserve("a"); !status.IsSuccess() {
			t.Fatal(status)
		}
		if status := w.PreFlight(t.Context(), c.state, c.pod, "a"); status.IsSkip() != skip {
			t.Errorf("claim %s: status %v; want Skip %t", claim, status, skip)
		}
	}
}

// TestCapacityOfBeforeTheStart: capacity that an earlier process of the scheduler
// requested is held, in whatever order objects are observed at the start.
func TestCapacityOfBeforeTheStart(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{
		node("a").Obj(), csiClass().Obj(), csiDriver(true), capacity("r", "a", "100Gi").Obj(),
		claim("first", "60Gi").Class("csi").SelectedNode("a").Provisioner(driver).Obj(), claim("second", "60Gi").Class("csi").Obj(),
	}
	for i := range objects {
		t.Run(fmt.Sprintf("%T last", objects[i]), func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t)
			for j := range objects {
				w.put(objects[(i+1+j)%len(objects)])
			}
			if status := w.begin(pod("p", "second")).filter("a"); status.IsSuccess() {
				t.Error("the capacity of the first claim is assigned again")
			}
			w.check()
			w.remove(objects[4])
			if status := w.begin(pod("p", "second")).filter("a"); !status.IsSuccess() {
				t.Errorf("the capacity of a deleted claim is held: %v", status)
			}
			w.check()
		})
	}
}
