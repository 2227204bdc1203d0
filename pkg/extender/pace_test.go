// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/extender"
)

// TestFilterWaitsForTheBindBefore: the scheduler asks about the next pod while the
// bind of the one before is on its way.
func TestFilterWaitsForTheBindBefore(t *testing.T) {
	t.Parallel()
	first, second, third := pod("first", "c"), pod("second", "d"), pod("third", "e")
	tests := map[string]struct {
		// meanwhile is what happens while filter is asked about the second pod.
		meanwhile func(w *world)
		next      *v1.Pod
		want      []string
		waited    time.Duration
	}{
		"the bind comes: its volume is not shown to the next pod": {
			meanwhile: func(w *world) { w.bindTo(first, "a") }, next: second, want: []string{"b"},
		},
		"the bind fails: the volume is shown again": {
			meanwhile: func(w *world) { w.bindTo(first, "x") }, next: second, want: []string{"a", "b"},
		},
		"no bind comes: the next pod does not wait for long": {
			meanwhile: func(*world) {}, next: second, want: []string{"a", "b"}, waited: bindComes,
		},
		"the same pod is tried again: nothing else will come of it": {
			meanwhile: func(*world) {}, next: first, want: []string{"a", "b"},
		},
		"pods without claims wait for nobody": {
			meanwhile: func(*world) {}, next: pod("none"), want: []string{"a", "b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, extender.ModeFull, localClass(), node("a"), node("b"), volume("v", "a", "1Gi").Obj(), volume("w", "b", "1Gi").Obj(),
					claim("c", "1Gi").Obj(), claim("d", "1Gi").Obj(), claim("e", "1Gi").Obj(), first, second, third)
				w.filterNames(first, "a", "b")
				asked, got := time.Now(), make(chan []string)
				go func() { got <- *w.filterNames(tc.next, "a", "b").NodeNames }()
				synctest.Wait()
				tc.meanwhile(w)
				if nodes := <-got; !slices.Equal(nodes, tc.want) {
					t.Errorf("the next pod is shown %v, want %v", nodes, tc.want)
				}
				if waited := time.Since(asked); waited != tc.waited {
					t.Errorf("filter waited %s, want %s", waited, tc.waited)
				}
			})
		})
	}
}

// TestPace: for how long pods wait whose scheduler does not bind at once.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPace(testVerb)
		pods := 0
		// next is how long the next pod waits.
		next := func() time.Duration {
			pods++
			pod, start := uid(pods), time.Now()
			p.await(t.Context(), pod)
			p.expect(pod)
			return time.Since(start)
		}
		bound := func() { p.came(uid(pods)) }
		for step, want := range []time.Duration{0, bindComes, bindComes / strangeness, bindComes / strangeness} {
			if got := next(); got != want {
				t.Errorf("pod %d waits %s, want %s", step, got, want)
			}
		}
		bound()
		for step, want := range []time.Duration{0, bindComes} {
			if got := next(); got != want {
				t.Errorf("pod %d after a bind waits %s, want %s", step, got, want)
			}
		}
		p.came(uid(pods - 1)) // late, and after it was given up
		if got := next(); got != bindComes {
			t.Errorf("after a bind that came late a pod waits %s, want %s", got, bindComes)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		start := time.Now()
		if p.await(ended, "other"); time.Since(start) != 0 {
			t.Error("a call waits on after its end")
		}
	})
}

// TestPlaces: no more binds write than get done in time.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const late = time.Second
	// burst has so many binds done, of which so many a second end however many
	// are at work, and returns how many write at the end.
	burst := func(p *places, binds, perSecond int) float64 {
		done := make(chan struct{})
		server := make(chan struct{})
		for range binds {
			go func() {
				b := p.begin()
				if b.take(context.Background()) == nil {
					<-server
				}
				b.end()
				done <- struct{}{}
			}()
		}
		go func() {
			for range binds {
				time.Sleep(time.Second / time.Duration(perSecond)) //nolint:forbidigo // the bubble's time
				server <- struct{}{}
			}
		}()
		for range binds {
			<-done
		}
		return p.limit
	}
	tests := map[string]struct {
		binds, perSecond int
		least, most      float64
	}{
		"a few, quickly: nothing is learnt":  {10, 1000, firstPlaces, firstPlaces},
		"many, quickly: more are let in":     {5000, 1000, manyPlaces, manyPlaces},
		"many, slowly: they are held back":   {300, 8, fewPlaces, 10},
		"a server that is nearly at a stand": {30, 1, fewPlaces, fewPlaces + 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlaces(late)
				if got := burst(p, tc.binds, tc.perSecond); got < tc.least || got > tc.most {
					t.Errorf("%.1f write at a time, want %.0f to %.0f", got, tc.least, tc.most)
				}
				if p.begun != 0 || p.busy != 0 || len(p.waiting) != 0 {
					t.Errorf("%d binds, %d at work, %d waiting are left", p.begun, p.busy, len(p.waiting))
				}
			})
		})
	}
}

// TestPlacesAreWaitedFor: by binds in their order, until their calls end, and by
// filter, which keeps further pods from being bound.
func TestPlacesAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPace(testVerb)
		var at []*place
		for range firstPlaces {
			b := p.places.begin()
			if err := b.take(t.Context()); err != nil {
				t.Fatal(err)
			}
			at = append(at, b)
		}
		over := errors.New("over")
		limited, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, over)
		defer cancel()
		impatient := p.places.begin()
		if err := impatient.take(limited); !errors.Is(err, over) {
			t.Errorf("without a place: error %v, want the cause", err)
		}
		impatient.end()
		var order []int
		for i := range 2 {
			go func() {
				b := p.places.begin()
				_ = b.take(t.Context())
				order = append(order, i)
				at = append(at, b)
			}()
			synctest.Wait()
		}
		for range 2 {
			first := at[0]
			at = at[1:]
			first.end()
			synctest.Wait()
		}
		if !slices.Equal(order, []int{0, 1}) {
			t.Errorf("places were had in the order %v", order)
		}
		asked := make(chan struct{})
		start := time.Now()
		go func() { p.await(t.Context(), "p"); close(asked) }()
		synctest.Wait()
		at[0].end()
		if <-asked; time.Since(start) != 0 {
			t.Errorf("filter waited %s although a bind ended", time.Since(start))
		}
		at[0] = p.places.begin()
		at = append(at, p.places.begin())
		start = time.Now()
		if p.await(t.Context(), "p"); time.Since(start) != roomComes {
			t.Errorf("filter waited %s for room, want %s", time.Since(start), roomComes)
		}
		for _, b := range at {
			b.end()
		}
	})
}
