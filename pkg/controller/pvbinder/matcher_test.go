// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// testbed is a matcher with a cache of volumes.
type testbed struct {
	Cache // methods that are not implemented are not called
	*matcher
	t        *testing.T
	volumes  map[string]*v1.PersistentVolume
	reserved map[types.UID]string // names of volumes by the claims' UIDs
	calls    [][]*match.Request   // of AssignAnywhere
	during   func()               // is called by AssignAnywhere; nil for none
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	b := &testbed{t: t, volumes: map[string]*v1.PersistentVolume{}, reserved: map[types.UID]string{}}
	b.matcher = newMatcher(b, loop.NewQueue("test", time.Hour, time.Hour))
	t.Cleanup(b.claims.ShutDown)
	t.Cleanup(b.classes.ShutDown)
	return b
}

// Volume implements Cache.
func (b *testbed) Volume(name string) *v1.PersistentVolume { return b.volumes[name] }

// AssignAnywhere implements Cache: each request gets the best volume that is left.
func (b *testbed) AssignAnywhere(class string, requests []*match.Request, limit int) []*v1.PersistentVolume {
	assigned := make([]*v1.PersistentVolume, len(requests))
	b.calls = append(b.calls, requests)
	for i, r := range requests {
		if limit == 0 {
			break
		}
		if r.Class != class || b.reserved[r.Claim.UID] != "" {
			b.t.Errorf("claim %s, for which %q is reserved, waits for a volume of class %s", r.Claim.Name, b.reserved[r.Claim.UID], class)
		}
		if best := b.best(r); best != nil {
			assigned[i], b.reserved[r.Claim.UID] = best.PV, best.Name
			limit--
		}
	}
	if b.during != nil {
		b.during()
	}
	return assigned
}

// best returns the best volume for a request of those that are free and not reserved, nil for none.
func (b *testbed) best(r *match.Request) (best *match.Volume) {
	reserved := slices.Collect(maps.Values(b.reserved))
	for name, volume := range b.volumes {
		if v := match.NewVolume(volume); v.Free() && !slices.Contains(reserved, name) && r.Matches(v) && (best == nil || match.Less(r, v, best)) {
			best = v
		}
	}
	return best
}

// Release implements Cache.
func (b *testbed) Release(claim types.UID) { delete(b.reserved, claim) }

// set changes a volume; nil deletes it.
func (b *testbed) set(name string, volume *builders.PV) {
	if volume == nil {
		delete(b.volumes, name)
		b.changed(nil)
		return
	}
	b.volumes[name] = volume.Obj()
	b.changed(b.volumes[name])
}

// run runs all assignments that are due, and returns the claims that were enqueued.
func (b *testbed) run() []string {
	b.t.Helper()
	for b.classes.Len() > 0 {
		name, _ := b.classes.Get()
		if _, err := b.assign(b.t.Context(), name); err != nil {
			b.t.Fatal(err)
		}
		b.classes.Done(name)
	}
	var keys []string
	for b.claims.Len() > 0 {
		key, _ := b.claims.Get()
		b.claims.Done(key)
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// chosen returns the volume that the claim was assigned, "none", or "open".
func (b *testbed) chosen(claim *builders.PVC) string {
	switch volume, known := b.choice(claim.Obj()); {
	case !known:
		return "open"
	case volume == nil:
		return "none"
	default:
		return volume.Name
	}
}

// aged is a claim of the class that was created at that second.
func aged(name string, second int64) *builders.PVC {
	return builders.MakePVC(name).UID(name).Class("fast").Change(func(c *v1.PersistentVolumeClaim) {
		c.CreationTimestamp = metav1.Unix(second, 0)
	})
}

func free(name, size string) *builders.PV { return builders.MakePV(name).Class("fast").Capacity(size) }

func (b *testbed) expect(want map[string]string, claims ...*builders.PVC) {
	b.t.Helper()
	got := map[string]string{}
	for _, claim := range claims {
		got[claim.Obj().Name] = b.chosen(claim)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("choices (-want +got):\n%s", diff)
	}
}

// TestOlderFirst: all claims of a class are assigned together, the older ones first, whichever was
// observed first.
func TestOlderFirst(t *testing.T) {
	t.Parallel()
	b := newTestbed(t)
	young, old, large := aged("young", 2), aged("old", 1), aged("large", 3).Request("2Gi")
	b.expect(map[string]string{"young": "open", "old": "open", "large": "open"}, young, large, old)
	b.set("pv", free("pv", "1Gi"))
	b.set("pv-2", free("pv-2", "2Gi"))
	if diff := cmp.Diff([]string{"default/large", "default/old", "default/young"}, b.run()); diff != "" {
		t.Errorf("enqueued (-want +got):\n%s", diff)
	}
	b.expect(map[string]string{"young": "pv-2", "old": "pv", "large": "none"}, young, large, old)
	b.set("pv-3", free("pv-3", "3Gi"))
	if diff := cmp.Diff([]string{"default/large"}, b.run()); diff != "" {
		t.Errorf("enqueued (-want +got):\n%s", diff)
	}
	b.expect(map[string]string{"young": "pv-2", "old": "pv", "large": "pv-3"}, young, large, old)
}

// TestRelease: the volume of a claim that is dropped, replaced or of another class now goes to another
// claim, in its newest state.
func TestRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(b *testbed)
		want   string
	}{
		"dropped":          {func(b *testbed) { b.drop("default/first") }, "pv"},
		"replaced":         {func(b *testbed) { b.chosen(aged("first", 9).UID("new")) }, "pv"},
		"of another class": {func(b *testbed) { b.chosen(aged("first", 1).Class("slow")) }, "pv"},
		"its attributes class changed": {func(b *testbed) {
			b.chosen(aged("first", 1).Change(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("gold") }))
		}, "pv"},
		"still waits":                 {func(*testbed) {}, "none"},
		"dropped, the volume changed": {func(b *testbed) { b.set("pv", free("pv", "1Mi")); b.drop("default/first") }, "none"},
		"dropped, the volume is gone": {func(b *testbed) { b.set("pv", nil); b.drop("default/first") }, "none"},
		"dropped, the volume is claimed": {func(b *testbed) {
			b.set("pv", free("pv", "1Gi").ClaimRef("default", "first", "first"))
			b.drop("default/first")
		}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestbed(t)
			b.set("pv", free("pv", "1Gi"))
			first, second := aged("first", 1), aged("second", 2)
			b.expect(map[string]string{"first": "open", "second": "open"}, first, second)
			b.run()
			b.expect(map[string]string{"first": "pv", "second": "none"}, first, second)
			tc.change(b)
			b.run()
			b.expect(map[string]string{"second": tc.want}, second)
		})
	}
}

// TestMaxBinding: of a class with many claims a bounded number have a volume assigned and not written.
func TestMaxBinding(t *testing.T) {
	t.Parallel()
	b := newTestbed(t)
	for i := range 2*maxBinding + 1 {
		name := strconv.Itoa(i)
		b.chosen(aged(name, 1))
		b.set("pv-"+name, free("pv-"+name, "1Gi"))
	}
	for _, want := range []int{maxBinding, maxBinding, 1, 0} {
		keys := b.run()
		if len(keys) != want || len(b.reserved) != want {
			t.Errorf("%d claims are enqueued and %d volumes reserved, want %d", len(keys), len(b.reserved), want)
		}
		for _, key := range keys {
			delete(b.volumes, b.waiting[key].volume.Name) // its claimRef is written
			b.drop(key)
		}
	}
}

// TestManySelectors: a run considers a bounded number of claims with selectors, of all namespaces in turn,
// until all have an answer.
func TestManySelectors(t *testing.T) {
	t.Parallel()
	b := newTestbed(t)
	claims := make([]*builders.PVC, 3*fewSelectors)
	for i := range claims {
		claims[i] = aged(strconv.Itoa(i), int64(i)).Selector(&metav1.LabelSelector{MatchLabels: map[string]string{"disk": "d"}})
		b.chosen(claims[i])
	}
	last := aged("last", 999).Namespace("other").Selector(&metav1.LabelSelector{MatchLabels: map[string]string{"disk": "d"}})
	b.chosen(last)
	keys := b.run()
	var considered []int
	for _, requests := range b.calls {
		considered = append(considered, len(requests))
	}
	if diff := cmp.Diff([]int{fewSelectors, fewSelectors, fewSelectors, 1}, considered); diff != "" || len(keys) != len(claims)+1 {
		t.Errorf("%d claims are answered; claims of each run (-want +got):\n%s", len(keys), diff)
	}
	if !slices.ContainsFunc(b.calls[0], func(r *match.Request) bool { return r.Claim.Namespace == "other" }) {
		t.Error("the first run considers one namespace only")
	}
	b.set("pv", free("pv", "1Gi").Label("disk", "other"))
	b.set("pv-d", free("pv-d", "1Gi").Label("disk", "d"))
	if diff := cmp.Diff([]string{"default/0"}, b.run()); diff != "" {
		t.Errorf("enqueued (-want +got):\n%s", diff)
	}
	if b.classes.Len() > 0 {
		t.Error("runs do not end")
	}
}

// TestDuringRun: handlers and workers do not wait for a run, and what changes meanwhile holds: the volume
// of a claim that is gone goes to another one.
func TestDuringRun(t *testing.T) {
	t.Parallel()
	b := newTestbed(t)
	b.set("pv", free("pv", "1Gi"))
	first, second := aged("first", 1), aged("second", 2)
	b.expect(map[string]string{"first": "open"}, first)
	b.during = func() {
		b.during = nil
		b.drop("default/first")
		b.expect(map[string]string{"second": "open"}, second)
		b.set("large", free("large", "2Gi"))
	}
	if diff := cmp.Diff([]string{"default/second"}, b.run()); diff != "" {
		t.Errorf("enqueued (-want +got):\n%s", diff)
	}
	b.expect(map[string]string{"second": "pv", "first": "open"}, second, first)
	b.run()
	b.expect(map[string]string{"first": "large"}, first)
}

// BenchmarkManyWait is a run for a class with 100,000 claims that its free volumes do not fit. Target on two
// cores: at most half a second, of which handlers wait for a tenth; the next run begins after nine times that.
func BenchmarkManyWait(b *testing.B) {
	c, factory := newController(b, fake.NewClientset(), events.NewFakeRecorder(0))
	if err := factory.Core().V1().PersistentVolumes().Informer().GetStore().Add(free("v", "1Gi").Obj()); err != nil {
		b.Fatal(err)
	}
	c.Cache.ObserveVolume("v")
	for i := range 100_000 {
		if _, known := c.matcher.choice(aged(fmt.Sprintf("c%06d", i), int64(i/100)).Request("500Gi").Obj()); known {
			b.Fatal("a claim is answered before a run")
		}
	}
	var longest time.Duration
	for b.Loop() {
		var handler sync.WaitGroup
		done := make(chan struct{})
		handler.Go(func() {
			for {
				begin := time.Now()
				c.matcher.changed(free("w", "1Gi").Obj())
				longest = max(longest, time.Since(begin))
				select {
				case <-done:
					return
				default:
				}
			}
		})
		if _, err := c.matcher.assign(b.Context(), "fast"); err != nil {
			b.Fatal(err)
		}
		close(done)
		handler.Wait()
	}
	b.ReportMetric(float64(longest.Milliseconds()), "ms-blocked")
	if n := len(c.matcher.waiting); n != 100_000 {
		b.Errorf("%d claims wait", n)
	}
}

// TestForgets: nothing is kept of claims that are gone, nor of their classes, whose names users choose.
func TestForgets(t *testing.T) {
	t.Parallel()
	b := newTestbed(t)
	for i := range 10 {
		name := strconv.Itoa(i)
		b.chosen(aged(name, 1).Class("class-" + name))
		b.set("pv-"+name, free("pv-"+name, "1Gi").Class("class-"+name))
	}
	b.run()
	for i := range 10 {
		b.drop("default/" + strconv.Itoa(i))
	}
	if n := len(b.waiting) + len(b.byClass) + len(b.reserved); n > 0 {
		t.Errorf("%d entries are left: %v", n, slices.Collect(maps.Keys(b.byClass)))
	}
}

// TestRandomMatches: no volume that is free and fits is withheld from a claim, whatever the order of
// events.
func TestRandomMatches(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r, b := rand.New(rand.NewPCG(seed, 2)), newTestbed(t)
		claims := make([]*builders.PVC, 5)
		for i := range claims {
			claims[i] = aged(fmt.Sprint("c", i), int64(i)).Request(fmt.Sprintf("%dGi", 1+r.IntN(3))).Class(fmt.Sprint("class", r.IntN(2)))
		}
		for range 60 {
			switch name, claim := fmt.Sprint("pv", r.IntN(5)), claims[r.IntN(len(claims))]; r.IntN(5) {
			case 0:
				b.set(name, free(name, fmt.Sprintf("%dGi", 1+r.IntN(3))).Class(fmt.Sprint("class", r.IntN(2))))
			case 1:
				b.set(name, nil)
			case 2:
				b.drop("default/" + claim.Obj().Name)
			case 3:
				b.chosen(claim)
			default:
				b.run()
			}
		}
		b.run()
		for key, w := range b.waiting {
			if v := b.best(w.request); w.volume == nil && v != nil {
				t.Errorf("seed %d: claim %s waits, and volume %s fits", seed, key, v.Name)
			}
		}
	}
}
