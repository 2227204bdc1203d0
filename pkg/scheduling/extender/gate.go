// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"

	"stowage.dev/stowage/pkg/metrics"
)

// gate decides whether a call to filter is answered now or waits: for the bind of the
// previous pod, for queued binds, or for informers that lag behind the scheduler's.
// kube-scheduler schedules nothing meanwhile, so all waits share one budget of a tenth of
// the time. docs/design/extender-pace.md has the reasons. Safe for concurrent use.
type gate struct {
	// maxWait bounds the accumulated budget, informerLag the wait for informers when the
	// budget is full; a bind that takes longer than slowBind is slow.
	maxWait, informerLag, slowBind time.Duration
	// writers are the binds that write, each with the weight at the time of its start.
	writers *semaphore.Weighted

	mu       sync.Mutex
	changed  chan struct{} // closed at the next change; nil: no call waits
	budget   time.Duration // remaining at budgetAt; negative: overdrawn
	budgetAt time.Time
	// expected is the pod that passed filter last and whose bind has not arrived; "" for
	// none.
	expected     types.UID
	binds        int // in progress, including those that wait to write
	weight       int64
	fastBinds    int       // fast binds since the weight changed
	doubledAt    time.Time // when the weight was last doubled
	observations uint64    // counts changes that the cache may depend on, see observe
	rejected     *lru.Cache
}

const (
	// maxBindWait bounds the accumulated budget, with an eighth of the call's timeout. A
	// bind takes the scheduler a goroutine and a request; much longer on a busy machine.
	maxBindWait = 100 * time.Millisecond
	// maxInformerLag bounds the wait for informers, with an eighth of the call's timeout.
	maxInformerLag = 500 * time.Millisecond
	// waitShare: calls may wait for one part in waitShare of the time.
	waitShare = 10
	// maxWriters is the most binds that write concurrently, divided by the weight: 16
	// initially, 2 at least.
	maxWriters               = 64
	initialWeight, maxWeight = 4, 32
	// maxRejected is how many rejected pods are remembered.
	maxRejected = 1 << 14
)

// newGate creates a gate for calls with this timeout.
func newGate(verb time.Duration, factory informers.SharedInformerFactory) (*gate, error) {
	g := &gate{
		maxWait: min(maxBindWait, verb/8), informerLag: min(maxInformerLag, verb/8), slowBind: verb / 4,
		writers: semaphore.NewWeighted(maxWriters), weight: initialWeight, rejected: lru.New(maxRejected),
		budget: min(maxBindWait, verb/8), budgetAt: time.Now(),
	}
	core, storage := factory.Core().V1(), factory.Storage().V1()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { g.observe() },
		DeleteFunc: func(any) { g.observe() },
		UpdateFunc: func(before, after any) {
			old, isNode := before.(*v1.Node)
			if isNode && maps.Equal(old.Labels, after.(*v1.Node).Labels) {
				return // a heartbeat
			}
			g.observe()
		},
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Nodes().Informer(), core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer(),
		storage.StorageClasses().Informer(), storage.CSIStorageCapacities().Informer(),
		storage.CSIDrivers().Informer(), storage.CSINodes().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("add event handler: %w", err)
		}
	}
	return g, nil
}

// observe records that informers have delivered something, or that a reservation was
// released: queries may have other results from now on.
func (g *gate) observe() { g.change(func() { g.observations++ }) }

// change calls f with mu held and wakes the waiting calls.
func (g *gate) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// startWait bounds a wait by limit and by the budget. A wait that starts with the full
// budget may overdraw it; no other call waits until it is positive again. done charges
// the actual time.
func (g *gate) startWait(ctx context.Context, limit time.Duration) (bounded context.Context, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	start := time.Now()
	g.budget = min(g.maxWait, g.budget+start.Sub(g.budgetAt)/waitShare)
	g.budgetAt = start
	if g.budget < g.maxWait {
		limit = min(limit, max(0, g.budget))
	}
	g.budget -= limit // reserved: other calls may wait concurrently
	bounded, cancel := context.WithDeadline(ctx, start.Add(limit))
	return bounded, func() {
		cancel()
		waited := time.Since(start)
		metrics.ObserveExtenderWait(waited)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.budget += limit - waited
	}
}

// waitUntil waits for a change after which ready returns true. It returns false if ctx
// ends first. ready is called with mu held.
func (g *gate) waitUntil(ctx context.Context, ready func() bool) bool {
	for {
		g.mu.Lock()
		is := ready()
		if !is && g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		if is || ctx.Err() != nil {
			return is && ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// awaitBinds returns when the pod may be evaluated: the bind of the previous pod has
// reserved, and another bind could write at once. It waits no longer than the budget
// allows.
func (g *gate) awaitBinds(ctx context.Context, pod types.UID) {
	ready := func() bool {
		return (g.expected == "" || g.expected == pod) && int64(g.binds)*g.weight < maxWriters
	}
	g.mu.Lock()
	now := ready()
	g.mu.Unlock()
	if !now {
		bounded, done := g.startWait(ctx, g.maxWait)
		defer done()
		now = g.waitUntil(bounded, ready)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !now || g.expected == pod {
		g.expected = "" // a call has waited, or the pod is retried
	}
}

// expectBind records that the pod passed filter, so that its bind should arrive.
func (g *gate) expectBind(pod types.UID) { g.change(func() { g.expected = pod }) }

// bindReserved records that a bind has reserved for the pod, or has failed.
func (g *gate) bindReserved(pod types.UID) {
	g.change(func() {
		if g.expected == pod {
			g.expected = ""
		}
	})
}

// beginBind counts a bind. The caller calls end.
func (g *gate) beginBind() (end func()) {
	g.change(func() { g.binds++ })
	return func() { g.change(func() { g.binds-- }) }
}

// write calls f, in the order of the calls, when few enough binds write. It returns the
// cause if ctx ends first.
func (g *gate) write(ctx context.Context, f func() error) error {
	g.mu.Lock()
	weight := g.weight
	g.mu.Unlock()
	if g.writers.Acquire(ctx, weight) != nil {
		return fmt.Errorf("waiting for earlier binds: %w", context.Cause(ctx))
	}
	defer g.writers.Release(weight)
	start := time.Now()
	defer func() { g.change(func() { g.adapt(time.Since(start)) }) }()
	return f()
}

// adapt adjusts the number of writers to the duration of a bind: half as many after a
// slow one, and twice as many after two rounds of fast ones while others wait. The caller
// holds mu.
func (g *gate) adapt(took time.Duration) {
	switch {
	case took > g.slowBind:
		if time.Since(g.doubledAt) > g.slowBind {
			g.weight, g.fastBinds, g.doubledAt = min(maxWeight, 2*g.weight), 0, time.Now()
		}
	case int64(g.binds)*g.weight >= maxWriters:
		if g.fastBinds++; int64(g.fastBinds)*g.weight >= 2*maxWriters {
			g.weight, g.fastBinds = max(1, g.weight/2), 0
		}
	}
}

// query is a filter call that was evaluated.
type query struct {
	pod          types.UID
	nodes        int
	observations uint64 // at the time
}

// newQuery begins a query.
func (g *gate) newQuery(pod types.UID, nodes int) query {
	g.mu.Lock()
	defer g.mu.Unlock()
	return query{pod, nodes, g.observations}
}

// recordRejection records that filter rejected all nodes, and reports whether the
// scheduler repeats a query although nothing was observed since. A query about more nodes
// than the previous one is another query: of the same scheduling cycle, which evaluates
// the nominated node first, or because other plugins accept more.
func (g *gate) recordRejection(q query) (again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.rejected.Get(q.pod)
	g.rejected.Add(q.pod, q)
	return known && before.(query).observations == q.observations && before.(query).nodes >= q.nodes
}

// waitForChange waits for a change since the query was evaluated, and records it.
func (g *gate) waitForChange(ctx context.Context, q *query) bool {
	return g.waitUntil(ctx, func() bool {
		if q.observations == g.observations {
			return false
		}
		q.observations = g.observations
		g.rejected.Add(q.pod, *q)
		return true
	})
}
