// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/testing/builders"
)

// testbed is a matcher and the volumes of its cache.
type testbed struct {
	Cache // methods that are not implemented are not called
	*matcher
	t       *testing.T
	volumes map[string]*v1.PersistentVolume
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	b := &testbed{t: t, volumes: map[string]*v1.PersistentVolume{}}
	b.matcher = newMatcher(b, loop.NewQueue("test", time.Hour, time.Hour))
	t.Cleanup(b.claims.ShutDown)
	t.Cleanup(b.classes.ShutDown)
	return b
}

// Volume implements Cache.
func (b *testbed) Volume(name string) *v1.PersistentVolume { return b.volumes[name] }

// set changes a volume; nil deletes it.
func (b *testbed) set(name string, volume *builders.PV) {
	if volume == nil {
		delete(b.volumes, name)
	} else {
		b.volumes[name] = volume.Obj()
	}
	b.offer(name)
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
		"dropped":                     {func(b *testbed) { b.drop("default/first") }, "pv"},
		"replaced":                    {func(b *testbed) { b.chosen(aged("first", 9).UID("new")) }, "pv"},
		"of another class":            {func(b *testbed) { b.chosen(aged("first", 1).Class("slow")) }, "pv"},
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

// TestForgets: nothing is kept of claims and volumes that are gone, nor of their classes, whose names
// users choose.
func TestForgets(t *testing.T) {
	t.Parallel()
	b := newTestbed(t)
	for i := range 10 {
		name := fmt.Sprint(i)
		b.chosen(aged(name, 1).Class("class-" + name))
		b.set("pv-"+name, free("pv-"+name, "1Gi").Class("class-"+name))
	}
	b.run()
	for i := range 10 {
		name := fmt.Sprint(i)
		b.set("pv-"+name, nil)
		b.drop("default/" + name)
	}
	if n := len(b.class) + len(b.waiting) + len(b.offered) + len(b.held); n > 0 {
		t.Errorf("%d entries are left: %v", n, slices.Collect(maps.Keys(b.class)))
	}
}

// TestRandomMatches: no volume is assigned twice, and none that is free and fits is withheld from a
// claim, whatever the order of events.
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
		b.check()
	}
}

// check fails the test if a volume is assigned twice, or if a free one fits a claim that waits.
func (b *testbed) check() {
	b.t.Helper()
	assigned := map[string]string{}
	for key, w := range b.waiting {
		if w.volume != nil {
			if other := assigned[w.volume.Name]; other != "" || b.held[w.volume.Name] != w {
				b.t.Errorf("volume %s is assigned to %s and %s", w.volume.Name, key, other)
			}
			assigned[w.volume.Name] = key
			continue
		}
		for name, v := range b.offered {
			if w.request.Matches(v) {
				b.t.Errorf("claim %s waits, and volume %s fits", key, name)
			}
		}
	}
	if len(assigned) != len(b.held) {
		b.t.Errorf("%d volumes are held, %d assigned", len(b.held), len(assigned))
	}
}
