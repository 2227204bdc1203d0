// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestHoldsExpire: what is held for volumes that the driver's reports never include
// expires, whichever call comes first; other holds remain.
func TestHoldsExpire(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(w *testbed, second *v1.Pod){
		"a pod is compiled":    func(w *testbed, second *v1.Pod) { w.demand(second) },
		"a pod reserves":       func(w *testbed, second *v1.Pod) { w.reserve(second, "a"); w.Release(second.UID) },
		"listeners are called": func(w *testbed, _ *v1.Pod) { w.callListeners() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, second := inFlight(t)
			w.put(pvc("late", "1Gi").SelectedNode("a").Obj()) // not provisioned yet
			appear(w)
			w.clock.SetTime(w.clock.Now().Add(reportTime))
			if got := w.fits(second, "a"); got != match.NotEnoughSpace {
				t.Errorf("before expiry, Fits returns %q", got)
			}
			w.clock.SetTime(w.clock.Now().Add(time.Second))
			ask(w, second)
			w.check()
			of := w.capacity[types.NamespacedName{Namespace: "kube-system", Name: "old"}].pool
			if len(of.holds) != 1 || of.held != 1<<30 || w.Size().Reservations != 1 {
				t.Errorf("%d holds of %d bytes, %d reservations; want one of 1Gi", len(of.holds), of.held, w.Size().Reservations)
			}
			if got := w.fits(second, "a"); got != match.Fits {
				t.Errorf("after expiry, Fits returns %q", got)
			}
		})
	}
}

// TestHeldOnce: an event of a claim that is handled after its volume appeared, while the
// informer's claim does not name the volume yet, does not hold bytes again that a report
// includes or that have expired.
func TestHeldOnce(t *testing.T) {
	t.Parallel()
	selected := func() *builders.PVC { return pvc("c", "60Gi").SelectedNode("a") }
	made := func() *builders.PV { return localPV("made", "a", "60Gi").ClaimRef("default", "c", "pvc-c") }
	touch := func(w *testbed) { w.put(selected().Label("touched", "yes").Obj()) }
	for name, tc := range map[string]struct {
		do   func(w *testbed)
		held int64 // bytes, before the next report
	}{
		"reported after the volume appeared": {do: func(w *testbed) {
			w.put(selected().Obj(), made().Obj(), capacityOnA("r", "140Gi"))
			touch(w)
		}},
		"reported before the volume appeared": {do: func(w *testbed) {
			w.put(selected().Obj(), capacityOnA("r", "140Gi"), made().Obj())
			touch(w)
		}},
		"expired": {do: func(w *testbed) {
			w.put(selected().Obj(), made().Obj())
			w.clock.SetTime(w.clock.Now().Add(reportTime + time.Second))
			w.expireDue()
			touch(w)
		}},
		"expired before the volume appeared": {do: func(w *testbed) {
			w.put(selected().Obj())
			w.clock.SetTime(w.clock.Now().Add(provisionTime + time.Second))
			w.expireDue()
			w.put(made().Obj())
			touch(w)
		}},
		"the claim's first event is late": {do: func(w *testbed) {
			late := w.late(selected().Obj())
			w.put(made().Obj(), capacityOnA("r", "140Gi"))
			late()
		}},
		"the claim's first event is late, the report is missing": {held: 60 << 30, do: func(w *testbed) {
			late := w.late(selected().Obj())
			w.put(made().Obj())
			late()
			touch(w)
		}},
		"bound by this process, the informer is behind": {do: func(w *testbed) {
			late := w.late(selected().Obj())
			bound := selected().Bound("made").Obj()
			bound.ResourceVersion = "1000"
			w.ApplyClaim(bound)
			late()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"), capacityOnA("r", "200Gi"))
			of := w.capacity[types.NamespacedName{Namespace: "kube-system", Name: "r"}].pool
			tc.do(w)
			w.check()
			if of.held != tc.held {
				t.Errorf("%d bytes are held, want %d", of.held, tc.held)
			}
			w.put(made().Phase(v1.VolumeBound).Obj(), capacityOnA("r", "139Gi"))
			touch(w)
			w.check()
			if of.held != 0 {
				t.Errorf("%d bytes are held after the next report", of.held)
			}
			w.put(selected().Bound("made").Obj())
			w.check()
			if left := w.Size().Reservations; left != 0 {
				t.Errorf("%d reservations are left after the claim was bound", left)
			}
		})
	}
}

// TestInitialLists: at the start, in whatever order the informers deliver what exists, bytes are
// held for a claim that has a selected node and a volume reserved for it, until the next report.
func TestInitialLists(t *testing.T) {
	t.Parallel()
	objects := func() map[string]runtime.Object {
		return map[string]runtime.Object{
			"node": node("a"), "report": capacityOnA("r", "100Gi"), "claim": pvc("c", "60Gi").SelectedNode("a").Obj(),
			"volume": localPV("made", "a", "60Gi").ClaimRef("default", "c", "").Obj(),
		}
	}
	for _, order := range []string{
		"node report claim volume", "node report volume claim", "node claim report volume",
		"node claim volume report", "node volume report claim", "node volume claim report",
		"report claim volume node", "report volume claim node", "claim report volume node",
		"claim volume report node", "volume report claim node", "volume claim report node",
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, dynamic("local", "csi"), tracked("csi"), pvc("d", "60Gi").Obj())
			w.reserved.listing = true
			exists := objects()
			for name := range strings.FieldsSeq(order) {
				w.put(exists[name])
			}
			w.holdAllSelected()
			w.check()
			if got := w.fits(pod("second", "d"), "a"); got != match.NotEnoughSpace {
				t.Errorf("before the next report, Fits returns %q", got)
			}
			w.put(capacityOnA("r", "99Gi"))
			w.check()
			if got := w.fits(pod("second", "d"), "a"); got != match.Fits {
				t.Errorf("after the next report, Fits returns %q", got)
			}
		})
	}
}

// TestOverdue: the volume of a claim with a selected node does not appear. Its bytes are
// released after provisionTime, which wakes the pod that waits for them, and are not held
// again for this claim. If the volume appears later, its reservation ends.
func TestOverdue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, second := inFlight(t)
		woken := w.listen(t)
		pass := func(d time.Duration) {
			w.clock.SetTime(w.clock.Now().Add(d))
			time.Sleep(d) //nolint:forbidigo // the bubble's time
		}
		size := func(want metrics.Provisioning) {
			t.Helper()
			w.check()
			if diff := cmp.Diff(map[string]metrics.Provisioning{"local": want}, w.Size().Provisioning); diff != "" {
				t.Errorf("provisioning (-want +got):\n%s", diff)
			}
		}
		w.reject(t, second)
		size(metrics.Provisioning{Claims: 1, Bytes: 60 << 30})
		pass(provisionTime)
		woken.want(t)
		w.reject(t, second)
		pass(releaseInterval)
		woken.want(t, "second")
		size(metrics.Provisioning{Overdue: 1})
		if got := w.fits(second, "a"); got != match.Fits {
			t.Errorf("after expiry, Fits returns %q", got)
		}
		first := pod("first", "c")
		w.put(pvc("c", "60Gi").SelectedNode("a").Label("touched", "yes").Obj())
		if w.reserve(first, "a") == nil {
			t.Error("the claim's own pod does not fit")
		}
		w.Release(first.UID)
		size(metrics.Provisioning{Overdue: 1})
		appear(w)
		w.check()
		if got := w.Size(); got.Reservations != 0 || len(got.Provisioning) > 0 {
			t.Errorf("after the volume appeared, %+v is left", got)
		}
	})
}
