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

// TestFilterWaitsForPreviousBind: the scheduler filters for the next pod before the bind
// of the previous one arrives.
func TestFilterWaitsForPreviousBind(t *testing.T) {
	t.Parallel()
	first, second, third := pod("first", "c"), pod("second", "d"), pod("third", "e")
	tests := map[string]struct {
		// meanwhile runs during the filter call for the next pod.
		meanwhile func(w *testbed)
		next      *v1.Pod
		want      []string
		waited    time.Duration
	}{
		"the bind arrives: its volume is not available to the next pod": {
			meanwhile: func(w *testbed) { w.bindTo(first, "a") }, next: second, want: []string{"b"},
		},
		"the bind fails: the volume is available again": {
			meanwhile: func(w *testbed) { w.bindTo(first, "x") }, next: second, want: []string{"a", "b"},
		},
		"no bind arrives: the wait is bounded": {
			meanwhile: func(*testbed) {}, next: second, want: []string{"a", "b"}, waited: maxBindWait,
		},
		"the same pod is retried: no bind will arrive": {
			meanwhile: func(*testbed) {}, next: first, want: []string{"a", "b"},
		},
		"pods without claims do not wait": {
			meanwhile: func(*testbed) {}, next: pod("none"), want: []string{"a", "b"},
		},
		"pods with bound claims do not wait": {
			meanwhile: func(*testbed) {}, next: pod("bound", "done"), want: []string{"b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTestbed(t, extender.ModeFull, localClass(), node("a"), node("b"), volume("v", "a", "1Gi").Obj(), volume("w", "b", "1Gi").Obj(),
					claim("c", "1Gi").Obj(), claim("d", "1Gi").Obj(), claim("e", "1Gi").Obj(), first, second, third,
					claim("done", "1Gi").Bound("x").Obj(), volume("x", "b", "1Gi").ClaimRef("default", "done", "pvc-done").Phase(v1.VolumeBound).Obj())
				w.filterNames(first, "a", "b")
				asked, got := time.Now(), make(chan []string)
				go func() { got <- *w.filterNames(tc.next, "a", "b").NodeNames }()
				synctest.Wait()
				tc.meanwhile(w)
				if nodes := <-got; !slices.Equal(nodes, tc.want) {
					t.Errorf("the next pod may go to %v, want %v", nodes, tc.want)
				}
				if waited := time.Since(asked); waited != tc.waited {
					t.Errorf("filter waited %s, want %s", waited, tc.waited)
				}
			})
		})
	}
}

// TestGateBudget: calls wait for a tenth of the time, and maxWait beyond that, whatever
// they wait for.
func TestGateBudget(t *testing.T) {
	t.Parallel()
	const pods, each = 100, 10 * time.Millisecond
	asked := 0
	tests := map[string]func(w *testbed){
		"every second pod is never bound": func(w *testbed) {
			pod := uid(asked)
			w.gate.awaitBinds(w.t.Context(), pod)
			w.gate.expectBind(pod)
			if asked++; asked%2 == 0 {
				go w.gate.bindReserved(pod)
			}
		},
		"binds are queued": func(w *testbed) {
			if w.gate.binds == 0 {
				for range maxWriters {
					w.gate.beginBind()
				}
			}
			w.gate.awaitBinds(w.t.Context(), "p")
		},
		"a repeated query":           func(w *testbed) { w.filterNames(pod("p", "c"), "a") },
		"a pod that is not observed": func(w *testbed) { w.filterNames(pod("q", "c"), "a") },
	}
	for name, ask := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestbed(t, extender.ModeFull, localClass(), node("a"), claim("c", "1Gi").Obj(), pod("p", "c"))
				waited, start := time.Duration(0), time.Now()
				for range pods {
					begin := time.Now()
					ask(w)
					waited += time.Since(begin)
					time.Sleep(each) //nolint:forbidigo // in a synctest bubble
				}
				took := time.Since(start)
				if most := maxInformerLag + took/waitShare; waited > most {
					t.Errorf("calls waited for %s of %s, want %s at most", waited, took, most)
				}
				if waited == 0 {
					t.Error("no call waited")
				}
				time.Sleep(waitShare * (waited + maxBindWait)) //nolint:forbidigo // in a synctest bubble
				begin := time.Now()
				if ask(w); time.Since(begin) == 0 && asked%2 == 0 {
					t.Error("no call waits with a full budget")
				}
			})
		})
	}
}

// TestGateEnds: a call does not wait after its context has ended.
func TestGateEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestbed(t, extender.ModeFull)
		ended, end := context.WithCancel(t.Context())
		end()
		start := time.Now()
		w.gate.expectBind("other")
		if w.gate.awaitBinds(ended, "p"); time.Since(start) != 0 {
			t.Error("awaitBinds waited")
		}
		if q := w.gate.newQuery("p", 1); w.gate.waitForChange(ended, &q) || time.Since(start) != 0 {
			t.Error("waitForChange waited")
		}
	})
}

// TestGateWithShortTimeout: calls with a short timeout wait less.
func TestGateWithShortTimeout(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, extender.ModeFull)
	quick, err := newGate(80*time.Millisecond, w.informers)
	if err != nil {
		t.Fatal(err)
	}
	if quick.maxWait != 10*time.Millisecond || quick.informerLag != 10*time.Millisecond {
		t.Errorf("with a timeout of 80 ms it waits %s for binds and %s for informers", quick.maxWait, quick.informerLag)
	}
}

// writersNow is how many binds may write at a time.
func (g *gate) writersNow() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maxWriters / g.weight
}

// wantIdle: no bind is in progress.
func (g *gate) wantIdle(t testing.TB) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.binds != 0 {
		t.Errorf("%d binds are in progress", g.binds)
	}
	if !g.writers.TryAcquire(maxWriters) {
		t.Error("binds write")
		return
	}
	g.writers.Release(maxWriters)
}

// TestGateWriters: the number of concurrent writers adapts to the server.
func TestGateWriters(t *testing.T) {
	t.Parallel()
	const first, few = maxWriters / initialWeight, maxWriters / maxWeight
	// burst runs binds, of which perSecond end each second regardless of the number of
	// writers.
	burst := func(g *gate, binds, perSecond int) {
		done := make(chan struct{})
		server := make(chan struct{})
		for range binds {
			go func() {
				end := g.beginBind()
				_ = g.write(context.Background(), func() error { <-server; return nil })
				end()
				done <- struct{}{}
			}()
		}
		go func() {
			for range binds {
				time.Sleep(time.Second / time.Duration(perSecond)) //nolint:forbidigo // in a synctest bubble
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
		"a few fast ones: no change":    {10, 1000, first, first},
		"many fast ones: more writers":  {5000, 1000, maxWriters, maxWriters},
		"many slow ones: fewer writers": {300, 8, few, 16},
		"a very slow server":            {30, 1, few, few},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTestbed(t, extender.ModeFull)
				burst(w.gate, tc.binds, tc.perSecond)
				if got := w.gate.writersNow(); got < tc.least || got > tc.most {
					t.Errorf("%d write at a time, want %d to %d", got, tc.least, tc.most)
				}
				w.gate.wantIdle(t)
			})
		})
	}
}

// TestGateQueue: binds write in the order of their calls, and a cancelled one does not.
// Filter waits while binds are queued.
func TestGateQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newTestbed(t, extender.ModeFull).gate
		ctx := t.Context()
		release := make(chan struct{})
		for range maxWriters / initialWeight {
			go func() {
				defer g.beginBind()()
				_ = g.write(ctx, func() error { <-release; return nil })
			}()
		}
		synctest.Wait()
		over := errors.New("over")
		limited, cancel := context.WithTimeoutCause(ctx, time.Second/2, over)
		defer cancel()
		if err := g.write(limited, func() error { return nil }); !errors.Is(err, over) {
			t.Errorf("cancelled while queued: error %v, want the cause", err)
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
			t.Error("filter does not wait while binds are queued")
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
