// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
)

func roomOnA(name, size string) *storagev1.CSIStorageCapacity {
	return builders.MakeCapacity(name, "local").Namespace("kube-system").UID(name).Hostname("a").Capacity(size).Obj()
}

// inFlight has 60 of 100Gi held on node a for claim c, whose provisioner is at work.
// Claim d asks for 60Gi, too.
func inFlight(t *testing.T) (w *world, second *v1.Pod) {
	t.Helper()
	w = newWorld(t, node("a"), dynamic("local", "csi"), tracked("csi"), roomOnA("old", "100Gi"),
		pvc("c", "60Gi").Obj(), pvc("d", "60Gi").Obj())
	first := pod("first", "c")
	if w.reserve(first, "a") == nil {
		t.Fatal("the first pod does not fit")
	}
	w.put(pvc("c", "60Gi").SelectedNode("a").Obj())
	w.Release(first.UID)
	return w, pod("second", "d")
}

// appear makes the volume of claim c.
func appear(w *world) {
	w.put(localPV("made", "a", "60Gi").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound).Obj(),
		pvc("c", "60Gi").SelectedNode("a").Bound("made").Obj())
}

// TestCapacityReplaced: a driver makes the object of a segment anew under another
// name. What is on its way is neither given twice nor counted twice.
func TestCapacityReplaced(t *testing.T) {
	t.Parallel()
	for story, tc := range map[string]struct {
		do   func(w *world)
		want match.ReasonCode
		// left are the reservations afterwards.
		left int
	}{
		"one goes, another comes": {func(w *world) {
			w.remove(roomOnA("old", "100Gi"))
			w.put(roomOnA("new", "100Gi"))
		}, match.NotEnoughSpace, 1},
		"one comes and both stay": {func(w *world) {
			w.put(roomOnA("new", "100Gi"))
		}, match.NotEnoughSpace, 1},
		"one comes that has more, and both stay": {func(w *world) {
			w.put(roomOnA("new", "120Gi"))
		}, match.Fits, 1},
		"one comes that has more, and goes": {func(w *world) {
			w.put(roomOnA("new", "120Gi"))
			w.remove(roomOnA("new", "120Gi"))
		}, match.NotEnoughSpace, 1},
		"one comes, the other goes": {func(w *world) {
			w.put(roomOnA("new", "100Gi"))
			w.remove(roomOnA("old", "100Gi"))
		}, match.NotEnoughSpace, 1},
		"there is more than before": {func(w *world) {
			w.remove(roomOnA("old", "100Gi"))
			w.put(roomOnA("new", "120Gi"))
		}, match.Fits, 1},
		"the claim is sent nowhere in between": {func(w *world) {
			w.remove(roomOnA("old", "100Gi"))
			w.put(pvc("c", "60Gi").Obj(), roomOnA("new", "100Gi"))
		}, match.Fits, 0},
		"the volume appears in between, and counts": {func(w *world) {
			w.remove(roomOnA("old", "100Gi"))
			appear(w)
			w.put(roomOnA("new", "60Gi"))
		}, match.Fits, 0},
		"the volume appears before the new one, and counts": {func(w *world) {
			appear(w)
			w.put(roomOnA("new", "60Gi"))
			w.remove(roomOnA("old", "100Gi"))
		}, match.Fits, 0},
		"the volume appears while there are two": {func(w *world) {
			w.put(roomOnA("new", "100Gi"))
			appear(w)
			w.remove(roomOnA("old", "100Gi"))
		}, match.NotEnoughSpace, 1},
		"one comes of another place": {func(w *world) {
			w.remove(roomOnA("old", "100Gi"))
			w.put(builders.MakeCapacity("new", "local").Namespace("kube-system").UID("new").Everywhere().Capacity("100Gi").Obj())
		}, match.Fits, 1},
		"none comes": {func(w *world) { w.remove(roomOnA("old", "100Gi")) }, match.NotEnoughSpace, 1},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			w, second := inFlight(t)
			tc.do(w)
			w.check()
			if got := w.fits(second, "a"); got != tc.want {
				t.Errorf("Fits says %q, want %q", got, tc.want)
			}
			if got := w.Size().Reservations; got != tc.left {
				t.Errorf("%d reservations are left, want %d", got, tc.left)
			}
		})
	}
}

// TestReportedBeforeTheVolume: a driver's report that counts a volume in may come before
// the volume is seen. Its bytes are not counted twice then.
func TestReportedBeforeTheVolume(t *testing.T) {
	t.Parallel()
	for story, tc := range map[string]struct {
		do   func(w *world)
		want match.ReasonCode
		left int // reservations
	}{
		"it counts the volume in":      {func(w *world) { w.put(roomOnA("old", "60Gi")) }, match.Fits, 0},
		"it does not":                  {func(w *world) { w.put(roomOnA("old", "100Gi")) }, match.NotEnoughSpace, 1},
		"it fell by less":              {func(w *world) { w.put(roomOnA("old", "61Gi")) }, match.NotEnoughSpace, 1},
		"another object counts it in":  {func(w *world) { w.put(roomOnA("new", "60Gi")) }, match.Fits, 0},
		"the last report has it again": {func(w *world) { w.put(roomOnA("old", "60Gi")); w.put(roomOnA("old", "100Gi")) }, match.NotEnoughSpace, 1},
		"there was no report to go by": {func(w *world) { w.remove(roomOnA("old", "100Gi")) }, match.NotEnoughSpace, 1},
		"it counts in two, and one is seen": {func(w *world) {
			w.put(pvc("e", "60Gi").SelectedNode("a").Obj(), roomOnA("old", "0"))
		}, match.NotEnoughSpace, 1},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, node("a"), dynamic("local", "csi"), tracked("csi"), roomOnA("old", "120Gi"))
			w.put(pvc("c", "60Gi").SelectedNode("a").Obj(), pvc("d", "60Gi").Obj())
			tc.do(w)
			appear(w)
			w.check()
			if got := w.fits(pod("second", "d"), "a"); got != tc.want {
				t.Errorf("Fits says %q, want %q", got, tc.want)
			}
			if got := w.Size().Reservations; got != tc.left {
				t.Errorf("%d reservations are left, want %d", got, tc.left)
			}
		})
	}
}

// TestReportedIsTold: pods that wait for the bytes hear of no event when the volume
// appears, so the listeners are told, and soon.
func TestReportedIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("a"), dynamic("local", "csi"), tracked("csi"), roomOnA("old", "120Gi"))
		w.put(pvc("c", "60Gi").SelectedNode("a").Obj(), pvc("d", "60Gi").Obj(), roomOnA("old", "60Gi"))
		w.put(pod("second", "d"))
		woken := w.listen(t)
		if got := w.fits(pod("second", "d"), "a"); got != match.NotEnoughSpace {
			t.Fatalf("Fits says %q", got)
		}
		appear(w)
		woken.want(t, "second")
	})
}

// TestReportedForAnother: one fall of the room's bytes ends one hold.
func TestReportedForAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node("a"), dynamic("local", "csi"), tracked("csi"), roomOnA("r", "100Gi"))
	w.put(pvc("c", "60Gi").SelectedNode("a").Obj(), pvc("e", "30Gi").SelectedNode("a").Obj(), roomOnA("r", "40Gi"))
	appear(w)
	w.put(localPV("other", "a", "30Gi").ClaimRef("default", "e", "pvc-e").Phase(v1.VolumeBound).Obj())
	w.check()
	of := w.capacity[types.NamespacedName{Namespace: "kube-system", Name: "r"}].room
	if of.held != 30<<30 {
		t.Errorf("%d bytes are held, want those of the volume that no report counts in", of.held)
	}
	w.put(roomOnA("r", "10Gi"))
	w.check()
	if of.held != 0 || w.Size().Reservations != 0 {
		t.Errorf("%d bytes and %d reservations are held after the next report, want none", of.held, w.Size().Reservations)
	}
}

// TestLapsedHoldsAreForgotten: what was held for volumes that the driver never
// counts in is gone after its time, whoever asks first, and what others hold is not.
func TestLapsedHoldsAreForgotten(t *testing.T) {
	t.Parallel()
	for story, ask := range map[string]func(w *world, second *v1.Pod){
		"a pod is tried":      func(w *world, second *v1.Pod) { w.demand(second) },
		"a pod has reserved":  func(w *world, second *v1.Pod) { w.reserve(second, "a"); w.Release(second.UID) },
		"the listeners' turn": func(w *world, _ *v1.Pod) { w.callListeners() },
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			w, second := inFlight(t)
			w.put(pvc("late", "1Gi").SelectedNode("a").Obj()) // not made yet
			appear(w)
			w.clock.SetTime(w.clock.Now().Add(settleTime))
			if got := w.fits(second, "a"); got != match.NotEnoughSpace {
				t.Errorf("before its time, Fits says %q", got)
			}
			w.clock.SetTime(w.clock.Now().Add(time.Second))
			ask(w, second)
			w.check()
			of := w.capacity[types.NamespacedName{Namespace: "kube-system", Name: "old"}].room
			if len(of.holds) != 1 || of.held != 1<<30 || w.Size().Reservations != 1 {
				t.Errorf("%d holds of %d bytes, %d reservations; want one of 1Gi", len(of.holds), of.held, w.Size().Reservations)
			}
			if got := w.fits(second, "a"); got != match.Fits {
				t.Errorf("after its time, Fits says %q", got)
			}
		})
	}
}

// TestOverdue: the volume of a claim that was sent to a node never appears. Its bytes are
// released after provisionTime, which wakes the pod that waits for them, and are not held
// again for this claim. Should the volume appear after all, its reservation ends.
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
		w.refuse(t, second)
		size(metrics.Provisioning{Claims: 1, Bytes: 60 << 30})
		pass(provisionTime)
		woken.want(t)
		w.refuse(t, second)
		pass(ledgerInterval)
		woken.want(t, "second")
		size(metrics.Provisioning{Overdue: 1})
		if got := w.fits(second, "a"); got != match.Fits {
			t.Errorf("after its time, Fits says %q", got)
		}
		first := pod("first", "c")
		w.put(pvc("c", "60Gi").SelectedNode("a").Label("touched", "yes").Obj())
		if w.reserve(first, "a") == nil {
			t.Error("the claim's own pod does not fit any more")
		}
		w.Release(first.UID)
		size(metrics.Provisioning{Overdue: 1})
		appear(w)
		w.check()
		if got := w.Size(); got.Reservations != 0 || len(got.Provisioning) > 0 {
			t.Errorf("with the volume there, %+v is left", got)
		}
	})
}

// TestRefusalTellsOfHeldBytes: it makes a difference to users whether there will be as much.
func TestRefusalTellsOfHeldBytes(t *testing.T) {
	t.Parallel()
	w, second := inFlight(t)
	w.put(pvc("large", "101Gi").Obj())
	for claim, want := range map[string]match.Reason{
		"d":     {Code: match.NotEnoughSpace, Claim: "d", Held: true},
		"large": {Code: match.NotEnoughSpace, Claim: "large"},
	} {
		p := second.DeepCopy()
		p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = claim
		if diff := cmp.Diff(want, w.Fits(w.demand(p), node("a"))); diff != "" {
			t.Errorf("claim %s (-want +got):\n%s", claim, diff)
		}
	}
}

// TestVastClaims: sums of bytes beyond what can be counted are taken back
// without an error.
func TestVastClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := w.roomOf("made", w.index.Acquire(topology.FromLabelSelector(nil)))
	holds := []*hold{{bytes: math.MaxInt64 - 1}, {bytes: 5}, {bytes: 7}}
	for _, h := range holds {
		of.hold(h)
	}
	if of.held != math.MaxInt64 {
		t.Errorf("%d bytes are held, want as many as can be counted", of.held)
	}
	w.vacate(holds[0])
	if of.held != 12 {
		t.Errorf("%d bytes are held, want 12", of.held)
	}
	w.vacate(holds[1])
	w.vacate(holds[2])
	if _, segments := w.index.Len(); segments != 0 {
		t.Errorf("%d segments are left", segments)
	}
}

// TestAllotTogether: several claims get room wherever there is a way, and never more
// than there is. The judge tries every way.
func TestAllotTogether(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	rng := rand.New(rand.NewPCG(seed, seed))
	for range campaign.Scale(300, 30_000) {
		w := newWorld(t, dynamic("local", "csi"), tracked("csi"), builders.MakeNode("a").UID("node-a").Hostname("a").Zone("z").Label("rack", "r").Obj())
		var left, largest []int64
		for i, of := range []*builders.Capacity{
			builders.MakeCapacity("0", "local").Hostname("a"), builders.MakeCapacity("1", "local").Zone("z"), builders.MakeCapacity("2", "local").Everywhere(),
		}[:1+rng.IntN(3)] {
			left, largest = append(left, 1+rng.Int64N(16)), append(largest, math.MaxInt64)
			of.Capacity(strconv.FormatInt(left[i], 10))
			if rng.IntN(4) == 0 {
				largest[i] = 1 + rng.Int64N(8)
				of.Max(strconv.FormatInt(largest[i], 10))
			}
			w.put(of.Obj())
		}
		var names []string
		var bytes []int64
		for i := range 1 + rng.IntN(5) {
			names, bytes = append(names, fmt.Sprint("c", i)), append(bytes, 1+rng.Int64N(8))
			w.put(pvc(names[i], strconv.FormatInt(bytes[i], 10)).Obj())
		}
		want, got := place(bytes, slices.Clone(left), largest), w.reserve(pod("p", names...), "a")
		if (got != nil) != want {
			t.Fatalf("claims of %v bytes in rooms of %v bytes, volumes of at most %v: reserved %v, want %t", bytes, left, largest, got, want)
		}
		for _, o := range w.capacity {
			if o.room.held > o.total {
				t.Fatalf("%d bytes are held of %d", o.room.held, o.total)
			}
		}
	}
}

// place tells whether volumes of so many bytes have room together.
func place(bytes, left, largest []int64) bool {
	if len(bytes) == 0 {
		return true
	}
	for i := range left {
		if bytes[0] > left[i] || bytes[0] > largest[i] {
			continue
		}
		left[i] -= bytes[0]
		if place(bytes[1:], left, largest) {
			return true
		}
		left[i] += bytes[0]
	}
	return false
}
