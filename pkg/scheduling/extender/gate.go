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

// gate decides whether a call to filter is answered now or waits: for the bind of
// the pod before, for binds that queue, or for what the scheduler knows and the
// informers have not shown yet. kube-scheduler schedules nothing meanwhile, so all
// waits share one budget of a tenth of the time. docs/design/extender-pace.md has
// the reasons. Safe for concurrent use.
type gate struct {
	// most is how much of the budget is saved up, informerLag how long a call
	// waits for the informers where all of it is, late how long a bind should
	// take at most.
	most, informerLag, late time.Duration
	// writers are the binds that write, each with the weight that they have at
	// the time.
	writers *semaphore.Weighted

	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil: no call waits
	saved   time.Duration // of the budget; negative: overdrawn
	savedAt time.Time
	// expected is the pod that passed filter last and whose bind has not come;
	// "" for none.
	expected types.UID
	binds    int // under way, those that wait for their turn included
	weight   int64
	inTime   int       // binds since the weight changed
	slowed   time.Time // when the weight was doubled last
	shown    uint64    // counts what informers have shown, see show
	refused  *lru.Cache
}

const (
	// bindComes is how much waiting is saved up, and at most an eighth of what a
	// call may take. A bind takes the scheduler a goroutine and a request; much
	// more on a machine that is busy.
	bindComes = 100 * time.Millisecond
	// lagEnds is how long a call waits for the informers, and at most an eighth
	// of what it may take.
	lagEnds = 500 * time.Millisecond
	// waitShare is the part of the time that calls may wait.
	waitShare = 10
	// mostWriters is how many binds write at most, firstWeight and mostWeight
	// divide it: 16 at first, 2 at least.
	mostWriters             = 64
	firstWeight, mostWeight = 4, 32
	// manyRefused is how many pods are remembered.
	manyRefused = 1 << 14
)

// newGate makes a gate for calls that may take so long.
func newGate(verb time.Duration, factory informers.SharedInformerFactory) (*gate, error) {
	g := &gate{
		most: min(bindComes, verb/8), informerLag: min(lagEnds, verb/8), late: verb / 4,
		writers: semaphore.NewWeighted(mostWriters), weight: firstWeight, refused: lru.New(manyRefused),
		saved: min(bindComes, verb/8), savedAt: time.Now(),
	}
	core, storage := factory.Core().V1(), factory.Storage().V1()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { g.show() },
		DeleteFunc: func(any) { g.show() },
		UpdateFunc: func(before, after any) {
			old, isNode := before.(*v1.Node)
			if isNode && maps.Equal(old.Labels, after.(*v1.Node).Labels) {
				return // a heartbeat
			}
			g.show()
		},
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Nodes().Informer(), core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer(),
		storage.StorageClasses().Informer(), storage.CSIStorageCapacities().Informer(),
		storage.CSIDrivers().Informer(), storage.CSINodes().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("follow what informers show: %w", err)
		}
	}
	return g, nil
}

// show notes that informers have shown something, or that what was reserved is free
// again: questions may be answered differently from now on.
func (g *gate) show() { g.change(func() { g.shown++ }) }

// change calls f with mu held and wakes the calls that wait.
func (g *gate) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// spend bounds a wait by limit and by the budget. While all of the budget is there
// a wait may overdraw it; no other call waits until that is made up for. done pays
// for the time since.
func (g *gate) spend(ctx context.Context, limit time.Duration) (bounded context.Context, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	start := time.Now()
	g.saved = min(g.most, g.saved+start.Sub(g.savedAt)/waitShare)
	g.savedAt = start
	if g.saved < g.most {
		limit = min(limit, max(0, g.saved))
	}
	g.saved -= limit // others may wait at the same time
	bounded, cancel := context.WithDeadline(ctx, start.Add(limit))
	return bounded, func() {
		cancel()
		waited := time.Since(start)
		metrics.ObserveExtenderWait(waited)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.saved += limit - waited
	}
}

// until waits for a change that makes it ready. It returns false when ctx ends
// before. ready is called with mu held.
func (g *gate) until(ctx context.Context, ready func() bool) bool {
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

// awaitBinds returns when the pod may be asked about: the bind of the pod before
// has reserved, and another bind would write at once. It does not wait longer than
// the budget allows.
func (g *gate) awaitBinds(ctx context.Context, pod types.UID) {
	ready := func() bool {
		return (g.expected == "" || g.expected == pod) && int64(g.binds)*g.weight < mostWriters
	}
	g.mu.Lock()
	now := ready()
	g.mu.Unlock()
	if !now {
		bounded, done := g.spend(ctx, g.most)
		defer done()
		now = g.until(bounded, ready)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !now || g.expected == pod {
		g.expected = "" // one call has waited, or the pod is tried again
	}
}

// expect notes that the pod passed filter, so that its bind is to come.
func (g *gate) expect(pod types.UID) { g.change(func() { g.expected = pod }) }

// came notes that a bind has reserved for the pod, or has failed.
func (g *gate) came(pod types.UID) {
	g.change(func() {
		if g.expected == pod {
			g.expected = ""
		}
	})
}

// begin counts a bind in. The caller calls end.
func (g *gate) begin() (end func()) {
	g.change(func() { g.binds++ })
	return func() { g.change(func() { g.binds-- }) }
}

// write calls f, in the order of the calls, when few enough binds write. It
// returns the cause if ctx ends before.
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

// adapt learns from a bind that took so long: half as many write after one that was
// late, and twice as many after as many in time as twice write at once, while
// others wait for their turn. The caller holds mu.
func (g *gate) adapt(took time.Duration) {
	switch {
	case took > g.late:
		if time.Since(g.slowed) > g.late {
			g.weight, g.inTime, g.slowed = min(mostWeight, 2*g.weight), 0, time.Now()
		}
	case int64(g.binds)*g.weight >= mostWriters:
		if g.inTime++; int64(g.inTime)*g.weight >= 2*mostWriters {
			g.weight, g.inTime = max(1, g.weight/2), 0
		}
	}
}

// question is one that filter decided about.
type question struct {
	pod   types.UID
	nodes int
	shown uint64 // what informers had shown
}

// ask begins a question.
func (g *gate) ask(pod types.UID, nodes int) question {
	g.mu.Lock()
	defer g.mu.Unlock()
	return question{pod, nodes, g.shown}
}

// refuse notes that filter refused all nodes, and reports whether the scheduler
// asks again although nothing was shown since. A question about more nodes than the
// one before is another one: of the same scheduling cycle, which asks about the
// nominated node first, or because other plugins accept more.
func (g *gate) refuse(q question) (again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.refused.Get(q.pod)
	g.refused.Add(q.pod, q)
	return known && before.(question).shown == q.shown && before.(question).nodes >= q.nodes
}

// more waits until more was shown than when the question was decided, and notes
// that.
func (g *gate) more(ctx context.Context, q *question) bool {
	return g.until(ctx, func() bool {
		if q.shown == g.shown {
			return false
		}
		q.shown = g.shown
		g.refused.Add(q.pod, *q)
		return true
	})
}
