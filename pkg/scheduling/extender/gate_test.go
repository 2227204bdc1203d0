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

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
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
		"pods without claims do not wait": {
			meanwhile: func(*world) {}, next: pod("none"), want: []string{"a", "b"},
		},
		"nor do pods whose claims are bound": {
			meanwhile: func(*world) {}, next: pod("bound", "done"), want: []string{"b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, extender.ModeFull, localClass(), node("a"), node("b"), volume("v", "a", "1Gi").Obj(), volume("w", "b", "1Gi").Obj(),
					claim("c", "1Gi").Obj(), claim("d", "1Gi").Obj(), claim("e", "1Gi").Obj(), first, second, third,
					claim("done", "1Gi").Bound("x").Obj(), volume("x", "b", "1Gi").ClaimRef("default", "done", "pvc-done").Phase(v1.VolumeBound).Obj())
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

// TestGateBudget: calls wait for a tenth of the time, and bindComes beyond that,
// whatever they wait for.
func TestGateBudget(t *testing.T) {
	t.Parallel()
	const pods, each = 100, 10 * time.Millisecond
	asked := 0
	tests := map[string]func(w *world){
		"every second pod is never bound": func(w *world) {
			pod := uid(asked)
			w.gate.awaitBinds(w.t.Context(), pod)
			w.gate.expect(pod)
			if asked++; asked%2 == 0 {
				go w.gate.came(pod)
			}
		},
		"binds queue": func(w *world) {
			if w.gate.binds == 0 {
				for range mostWriters {
					w.gate.begin()
				}
			}
			w.gate.awaitBinds(w.t.Context(), "p")
		},
		"the same question again": func(w *world) { w.filterNames(pod("p", "c"), "a") },
		"a pod that is not shown": func(w *world) { w.filterNames(pod("q", "c"), "a") },
	}
	for name, ask := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, extender.ModeFull, localClass(), node("a"), claim("c", "1Gi").Obj(), pod("p", "c"))
				waited, start := time.Duration(0), time.Now()
				for range pods {
					begin := time.Now()
					ask(w)
					waited += time.Since(begin)
					time.Sleep(each) //nolint:forbidigo // the bubble's time
				}
				took := time.Since(start)
				if most := lagEnds + took/waitShare; waited > most {
					t.Errorf("calls waited for %s of %s, want %s at most", waited, took, most)
				}
				if waited == 0 {
					t.Error("no call waited")
				}
				time.Sleep(waitShare * (waited + bindComes)) //nolint:forbidigo // the bubble's time
				begin := time.Now()
				if ask(w); time.Since(begin) == 0 && asked%2 == 0 {
					t.Error("no call waits after a rest")
				}
			})
		})
	}
}

// TestGateEnds: a call does not wait after its end.
func TestGateEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, extender.ModeFull)
		ended, end := context.WithCancel(t.Context())
		end()
		start := time.Now()
		w.gate.expect("other")
		if w.gate.awaitBinds(ended, "p"); time.Since(start) != 0 {
			t.Error("for a bind")
		}
		if q := w.gate.ask("p", 1); w.gate.more(ended, &q) || time.Since(start) != 0 {
			t.Error("for informers")
		}
	})
}

// TestGateFollowsTheCallsTime: short calls wait for short.
func TestGateFollowsTheCallsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, extender.ModeFull)
	quick, err := newGate(80*time.Millisecond, w.informers)
	if err != nil {
		t.Fatal(err)
	}
	if quick.most != 10*time.Millisecond || quick.informerLag != 10*time.Millisecond {
		t.Errorf("with 80 ms for a call it waits %s for binds and %s for informers", quick.most, quick.informerLag)
	}
}

// writersNow is how many binds write at a time.
func (g *gate) writersNow() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return mostWriters / g.weight
}

// wantIdle: no bind is under way.
func (g *gate) wantIdle(t testing.TB) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.binds != 0 {
		t.Errorf("%d binds are under way", g.binds)
	}
	if !g.writers.TryAcquire(mostWriters) {
		t.Error("binds write")
		return
	}
	g.writers.Release(mostWriters)
}

// TestGateWriters: no more binds write than get done in time.
func TestGateWriters(t *testing.T) {
	t.Parallel()
	const first, few = mostWriters / firstWeight, mostWriters / mostWeight
	// burst has so many binds done, of which so many a second end however many write.
	burst := func(g *gate, binds, perSecond int) {
		done := make(chan struct{})
		server := make(chan struct{})
		for range binds {
			go func() {
				end := g.begin()
				_ = g.write(context.Background(), func() error { <-server; return nil })
				end()
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
	}
	tests := map[string]struct {
		binds, perSecond int
		least, most      int64
	}{
		"a few, quickly: nothing is learnt":  {10, 1000, first, first},
		"many, quickly: more are let in":     {5000, 1000, mostWriters, mostWriters},
		"many, slowly: they are held back":   {300, 8, few, 16},
		"a server that is nearly at a stand": {30, 1, few, few},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, extender.ModeFull)
				burst(w.gate, tc.binds, tc.perSecond)
				if got := w.gate.writersNow(); got < tc.least || got > tc.most {
					t.Errorf("%d write at a time, want %d to %d", got, tc.least, tc.most)
				}
				w.gate.wantIdle(t)
			})
		})
	}
}

// TestGateQueue: binds write in the order of their calls, and one whose call ends
// before does not. Filter waits while they queue.
func TestGateQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newWorld(t, extender.ModeFull).gate
		ctx := t.Context()
		release := make(chan struct{})
		for range mostWriters / firstWeight {
			go func() {
				defer g.begin()()
				_ = g.write(ctx, func() error { <-release; return nil })
			}()
		}
		synctest.Wait()
		over := errors.New("over")
		limited, cancel := context.WithTimeoutCause(ctx, time.Second/2, over)
		defer cancel()
		if err := g.write(limited, func() error { return nil }); !errors.Is(err, over) {
			t.Errorf("without a turn: error %v, want the cause", err)
		}
		var order []int
		for i := range 2 {
			go func() { _ = g.write(ctx, func() error { order = append(order, i); return nil }) }()
			synctest.Wait()
		}
		start, asked := time.Now(), make(chan struct{})
		go func() { g.awaitBinds(ctx, "p"); close(asked) }()
		synctest.Wait()
		select {
		case <-asked:
			t.Error("filter does not wait while binds queue")
		default:
		}
		release <- struct{}{}
		if <-asked; time.Since(start) != 0 {
			t.Errorf("filter waited %s although a bind ended", time.Since(start))
		}
		close(release)
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1}) {
			t.Errorf("binds wrote in the order %v", order)
		}
		g.wantIdle(t)
	})
}
