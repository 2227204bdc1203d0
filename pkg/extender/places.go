// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"slices"
	"sync"
	"time"
)

// places bound how many binds write at a time. kube-scheduler begins a bind for
// each pod of a burst, and an API server that works for all of them at once is done
// with none of them in the time that a call has. As many write as get done well
// within it: the bound grows by one for as many binds as it lets through, and is
// halved when one was late.
type places struct {
	late time.Duration

	mu      sync.Mutex
	limit   float64
	begun   int             // binds that have a place or are to have one
	busy    int             // those that have one
	waiting []chan struct{} // for a place, the first one first; closed when it is there
	ended   chan struct{}   // closed when a bind ends, and replaced
	slowed  time.Time       // when the bound was halved last
}

const (
	firstPlaces = 16
	fewPlaces   = 2
	manyPlaces  = 64
)

// newPlaces makes places for binds that should not take longer than late.
func newPlaces(late time.Duration) *places {
	return &places{late: late, limit: firstPlaces, ended: make(chan struct{})}
}

// place is one bind's; not safe for concurrent use.
type place struct {
	of    *places
	since time.Time // when it was had; zero: not yet
}

// begin counts a bind in. The caller ends it.
func (p *places) begin() *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	return &place{of: p}
}

// take waits for the place, in the order of the calls, or returns the cause of the
// context's end.
func (b *place) take(ctx context.Context) error {
	p, turn := b.of, make(chan struct{})
	p.mu.Lock()
	p.waiting = append(p.waiting, turn)
	p.admit()
	p.mu.Unlock()
	var err error
	select {
	case <-turn:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, turn); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		return err
	}
	b.since = time.Now()
	return err
}

// end gives the place back, if it was had, and counts the bind out.
func (b *place) end() {
	p := b.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.since.IsZero() {
		p.adapt(time.Since(b.since))
		p.busy--
	}
	p.begun--
	p.admit()
	close(p.ended)
	p.ended = make(chan struct{})
}

// adapt learns from a bind that took so long. A bound that nobody reached says
// nothing about what lies above it.
func (p *places) adapt(took time.Duration) {
	switch {
	case took <= p.late && p.begun >= int(p.limit):
		p.limit = min(manyPlaces, p.limit+1/p.limit)
	case took > p.late && time.Since(p.slowed) > p.late:
		p.limit, p.slowed = max(fewPlaces, p.limit/2), time.Now()
	}
}

// admit lets in those for whom there is a place.
func (p *places) admit() {
	for p.busy < int(p.limit) && len(p.waiting) > 0 {
		close(p.waiting[0])
		p.waiting = slices.Delete(p.waiting, 0, 1)
		p.busy++
	}
}

// await returns when another bind would have a place at once, or ctx has ended.
func (p *places) await(ctx context.Context) {
	for {
		p.mu.Lock()
		full, ended := p.begun >= int(p.limit), p.ended
		p.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}
