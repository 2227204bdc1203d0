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

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
)

func capacityOnA(name, size string) *storagev1.CSIStorageCapacity {
	return builders.MakeCapacity(name, "local").Namespace("kube-system").UID(name).Hostname("a").Capacity(size).Obj()
}

// inFlight has 60 of 100Gi held on node a for claim c, whose provisioner is at work.
// Claim d requests 60Gi too.
func inFlight(t *testing.T) (w *testbed, second *v1.Pod) {
	t.Helper()
	w = newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"), capacityOnA("old", "100Gi"),
		pvc("c", "60Gi").Obj(), pvc("d", "60Gi").Obj())
	first := pod("first", "c")
	if w.reserve(first, "a") == nil {
		t.Fatal("the first pod does not fit")
	}
	w.put(pvc("c", "60Gi").SelectedNode("a").Obj())
	w.Release(first.UID)
	return w, pod("second", "d")
}

// appear creates the volume of claim c.
func appear(w *testbed) {
	w.put(localPV("made", "a", "60Gi").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound).Obj(),
		pvc("c", "60Gi").SelectedNode("a").Bound("made").Obj())
}

// TestCapacityReplaced: a driver replaces the object of a segment by one with another
// name. Bytes in flight are neither reserved twice nor counted twice.
func TestCapacityReplaced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(w *testbed)
		want match.ReasonCode
		// left are the reservations afterwards.
		left int
	}{
		"deleted, then created": {func(w *testbed) {
			w.remove(capacityOnA("old", "100Gi"))
			w.put(capacityOnA("new", "100Gi"))
		}, match.NotEnoughSpace, 1},
		"created, both remain": {func(w *testbed) {
			w.put(capacityOnA("new", "100Gi"))
		}, match.NotEnoughSpace, 1},
		"created with more, both remain": {func(w *testbed) {
			w.put(capacityOnA("new", "120Gi"))
		}, match.Fits, 1},
		"created with more, then deleted": {func(w *testbed) {
			w.put(capacityOnA("new", "120Gi"))
			w.remove(capacityOnA("new", "120Gi"))
		}, match.NotEnoughSpace, 1},
		"created, then the old one deleted": {func(w *testbed) {
			w.put(capacityOnA("new", "100Gi"))
			w.remove(capacityOnA("old", "100Gi"))
		}, match.NotEnoughSpace, 1},
		"deleted, then created with more": {func(w *testbed) {
			w.remove(capacityOnA("old", "100Gi"))
			w.put(capacityOnA("new", "120Gi"))
		}, match.Fits, 1},
		"the claim's node is deselected in between": {func(w *testbed) {
			w.remove(capacityOnA("old", "100Gi"))
			w.put(pvc("c", "60Gi").Obj(), capacityOnA("new", "100Gi"))
		}, match.Fits, 0},
		"the volume appears in between, and the new report includes it": {func(w *testbed) {
			w.remove(capacityOnA("old", "100Gi"))
			appear(w)
			w.put(capacityOnA("new", "60Gi"))
		}, match.Fits, 0},
		"the volume appears before the new report, which includes it": {func(w *testbed) {
			appear(w)
			w.put(capacityOnA("new", "60Gi"))
			w.remove(capacityOnA("old", "100Gi"))
		}, match.Fits, 0},
		"the volume appears while both exist": {func(w *testbed) {
			w.put(capacityOnA("new", "100Gi"))
			appear(w)
			w.remove(capacityOnA("old", "100Gi"))
		}, match.NotEnoughSpace, 1},
		"replaced by one of another segment": {func(w *testbed) {
			w.remove(capacityOnA("old", "100Gi"))
			w.put(builders.MakeCapacity("new", "local").Namespace("kube-system").UID("new").Everywhere().Capacity("100Gi").Obj())
		}, match.Fits, 1},
		"deleted only": {func(w *testbed) { w.remove(capacityOnA("old", "100Gi")) }, match.NotEnoughSpace, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, second := inFlight(t)
			tc.do(w)
			w.check()
			if got := w.fits(second, "a"); got != tc.want {
				t.Errorf("Fits returns %q, want %q", got, tc.want)
			}
			if got := w.Size().Reservations; got != tc.left {
				t.Errorf("%d reservations are left, want %d", got, tc.left)
			}
		})
	}
}

// TestReportedBeforeTheVolume: a driver's report that includes a volume may be observed
// before the volume. Its bytes are not counted twice then.
func TestReportedBeforeTheVolume(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(w *testbed)
		want match.ReasonCode
		left int // reservations
	}{
		"it includes the volume":            {func(w *testbed) { w.put(capacityOnA("old", "60Gi")) }, match.Fits, 0},
		"it does not include it":            {func(w *testbed) { w.put(capacityOnA("old", "100Gi")) }, match.NotEnoughSpace, 1},
		"it decreased by less":              {func(w *testbed) { w.put(capacityOnA("old", "61Gi")) }, match.NotEnoughSpace, 1},
		"another object includes it":        {func(w *testbed) { w.put(capacityOnA("new", "60Gi")) }, match.Fits, 0},
		"the last report excludes it again": {func(w *testbed) { w.put(capacityOnA("old", "60Gi")); w.put(capacityOnA("old", "100Gi")) }, match.NotEnoughSpace, 1},
		"the report was deleted":            {func(w *testbed) { w.remove(capacityOnA("old", "100Gi")) }, match.NotEnoughSpace, 1},
		"it includes two volumes, one of which is observed": {func(w *testbed) {
			w.put(pvc("e", "60Gi").SelectedNode("a").Obj(), capacityOnA("old", "0"))
		}, match.NotEnoughSpace, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"), capacityOnA("old", "120Gi"))
			w.put(pvc("c", "60Gi").SelectedNode("a").Obj(), pvc("d", "60Gi").Obj())
			tc.do(w)
			appear(w)
			w.check()
			if got := w.fits(pod("second", "d"), "a"); got != tc.want {
				t.Errorf("Fits returns %q, want %q", got, tc.want)
			}
			if got := w.Size().Reservations; got != tc.left {
				t.Errorf("%d reservations are left, want %d", got, tc.left)
			}
		})
	}
}

// TestCounted: a report may say that it includes volumes that do not exist yet. Their bytes are
// counted once: while they are made, after a restart, and when the claim is scheduled again.
func TestCounted(t *testing.T) {
	t.Parallel()
	counts := func(bytes, claims string) *storagev1.CSIStorageCapacity {
		object := capacityOnA("r", bytes)
		object.Annotations = map[string]string{wellknown.PavCountedAnnotation: claims}
		return object
	}
	made := pvc("c", "60Gi").SelectedNode("a").Obj()
	for name, tc := range map[string]struct {
		before, after []runtime.Object
		first, second match.ReasonCode // of the claim that is made, and of another one
		held          int64
	}{
		"not counted":            {[]runtime.Object{made}, []runtime.Object{capacityOnA("r", "70Gi")}, match.Fits, match.NotEnoughSpace, 60 << 30},
		"another one is counted": {[]runtime.Object{made}, []runtime.Object{counts("70Gi", "pvc-x,pvc-y")}, match.Fits, match.NotEnoughSpace, 60 << 30},
		"counted":                {[]runtime.Object{made}, []runtime.Object{counts("60Gi", "pvc-b,pvc-c")}, match.Fits, match.Fits, 0},
		"counted beside others":  {[]runtime.Object{made}, []runtime.Object{counts("0", "pvc-b,pvc-c")}, match.Fits, match.NotEnoughSpace, 0},
		"restarted":              {nil, []runtime.Object{counts("70Gi", "pvc-c"), made}, match.Fits, match.Fits, 0},
		"restarted, and full":    {nil, []runtime.Object{counts("0", "pvc-c"), made}, match.Fits, match.NotEnoughSpace, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"), capacityOnA("r", "120Gi"))
			w.put(pvc("d", "60Gi").Obj())
			w.put(tc.before...)
			w.put(tc.after...)
			w.check()
			if got := w.fits(pod("first", "c"), "a"); got != tc.first {
				t.Errorf("the claim that is made: Fits returns %q, want %q", got, tc.first)
			}
			if got := w.fits(pod("second", "d"), "a"); got != tc.second {
				t.Errorf("another claim: Fits returns %q, want %q", got, tc.second)
			}
			if got := w.capacity[types.NamespacedName{Namespace: "kube-system", Name: "r"}].pool.held; got != tc.held {
				t.Errorf("%d bytes are held, want %d", got, tc.held)
			}
		})
	}
}

// TestReportedWakes: no event wakes pods that wait for the bytes when the volume
// appears, so the listeners are called.
func TestReportedWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"), capacityOnA("old", "120Gi"))
		w.put(pvc("c", "60Gi").SelectedNode("a").Obj(), pvc("d", "60Gi").Obj(), capacityOnA("old", "60Gi"))
		w.put(pod("second", "d"))
		woken := w.listen(t)
		if got := w.fits(pod("second", "d"), "a"); got != match.NotEnoughSpace {
			t.Fatalf("Fits returns %q", got)
		}
		appear(w)
		woken.want(t, "second")
	})
}

// TestReportedForAnother: one decrease of the pool's bytes ends one hold.
func TestReportedForAnother(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"), capacityOnA("r", "100Gi"))
	w.put(pvc("c", "60Gi").SelectedNode("a").Obj(), pvc("e", "30Gi").SelectedNode("a").Obj(), capacityOnA("r", "40Gi"))
	appear(w)
	w.put(localPV("other", "a", "30Gi").ClaimRef("default", "e", "pvc-e").Phase(v1.VolumeBound).Obj(),
		pvc("e", "30Gi").SelectedNode("a").Bound("other").Obj())
	w.check()
	of := w.capacity[types.NamespacedName{Namespace: "kube-system", Name: "r"}].pool
	if of.held != 30<<30 {
		t.Errorf("%d bytes are held, want those of the volume that no report includes", of.held)
	}
	w.put(capacityOnA("r", "10Gi"))
	w.check()
	if of.held != 0 || w.Size().Reservations != 0 {
		t.Errorf("%d bytes and %d reservations are held after the next report, want none", of.held, w.Size().Reservations)
	}
}

// TestReasonHeldBytes: the reason distinguishes bytes that are held from bytes that do not
// exist.
func TestReasonHeldBytes(t *testing.T) {
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

// TestVastClaims: a sum of bytes beyond MaxInt64 is correct again after releases.
func TestVastClaims(t *testing.T) {
	t.Parallel()
	w := newTestbed(t)
	of := w.capacityPoolOf("made", w.index.Acquire(topology.FromLabelSelector(nil)))
	holds := []*hold{{bytes: math.MaxInt64 - 1}, {bytes: 5}, {bytes: 7}}
	for _, h := range holds {
		of.addHold(h)
	}
	if of.held != math.MaxInt64 {
		t.Errorf("%d bytes are held, want math.MaxInt64", of.held)
	}
	w.reserved.releaseBytes(holds[0])
	if of.held != 12 {
		t.Errorf("%d bytes are held, want 12", of.held)
	}
	w.reserved.releaseBytes(holds[1])
	w.reserved.releaseBytes(holds[2])
	if _, segments := w.index.Len(); segments != 0 {
		t.Errorf("%d segments are left", segments)
	}
}

// TestAllotTogether: several claims get capacity if any combination of pools provides it,
// and never more than exists. The reference tries every combination.
func TestAllotTogether(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	rng := rand.New(rand.NewPCG(seed, seed))
	for range campaign.Scale(300, 30_000) {
		w := newTestbed(t, dynamic("local", "csi"), tracked("csi"), builders.MakeNode("a").UID("node-a").Hostname("a").Zone("z").Label("rack", "r").Obj())
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
			t.Fatalf("claims of %v bytes in pools of %v bytes, volumes of at most %v: reserved %v, want %t", bytes, left, largest, got, want)
		}
		for _, o := range w.capacity {
			if o.pool.held > o.total {
				t.Fatalf("%d bytes are held of %d", o.pool.held, o.total)
			}
		}
	}
}

// place reports whether volumes of those sizes fit together.
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
