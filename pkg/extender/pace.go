// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/metrics"
)

// pace keeps the scheduler's loop in step with the binds that it begins.
//
// kube-scheduler chooses a pod's node, begins to bind, and asks about the next pod at
// once. Until the first bind has reserved, the second pod is shown the same volumes,
// and where scores lead both to one node one of them fails. The extender cannot know
// the first pod's node before its bind comes; but that comes in no time, so the
// question about the next pod waits for it.
type pace struct {
	places *places
	// patience is how long the next pod waits for a bind, room how long for
	// earlier binds to end.
	patience, room time.Duration

	mu sync.Mutex
	// expected is the pod that was let through last and whose bind has not
	// come; "" for none.
	expected types.UID
	reserved chan struct{} // closed when it has
	// strange is set when a bind did not come: the scheduler keeps its pods
	// waiting for something else.
	strange bool
	// late is the pod whose bind was given up last; should it come all the same,
	// nothing was strange but the machine's haste.
	late types.UID
}

const (
	// bindComes is how long the next pod waits for a bind, and at most an eighth
	// of what a call may take. A bind takes the scheduler a goroutine and a
	// request; much more on a machine that is busy.
	bindComes = 100 * time.Millisecond
	// strangeness divides that after a bind that did not come, until one has.
	strangeness = 10
	// roomComes is how long a pod waits while more binds are under way than get
	// done in time, and at most a quarter of what a call may take: beyond it the
	// binds themselves wait.
	roomComes = time.Second
)

// newPace makes a pace for calls that may take so long.
func newPace(verb time.Duration) *pace {
	return &pace{places: newPlaces(verb / 4), patience: min(bindComes, verb/8), room: min(roomComes, verb/4)}
}

// await returns when the pod may be asked about: the bind of the one before has
// reserved, and there is room for another. It does not wait long.
func (p *pace) await(ctx context.Context, pod types.UID) {
	start := time.Now()
	p.awaitReserved(ctx, pod)
	limited, cancel := context.WithTimeout(ctx, p.room)
	defer cancel()
	p.places.await(limited)
	metrics.ObserveExtenderWait(time.Since(start))
}

func (p *pace) awaitReserved(ctx context.Context, pod types.UID) {
	p.mu.Lock()
	if p.expected == pod {
		p.expected = "" // it is being tried again
	}
	expected, reserved, patience := p.expected, p.reserved, p.patience
	if p.strange {
		patience /= strangeness
	}
	p.mu.Unlock()
	if expected == "" {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-reserved:
		return
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.strange, p.late = true, expected
	if p.expected == expected {
		p.expected = "" // once is enough
	}
}

// expect notes that the pod was let through, so that a bind is to come for it.
func (p *pace) expect(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected, p.reserved = pod, make(chan struct{})
}

// came notes that a bind has reserved for the pod, or that nothing will come of it.
func (p *pace) came(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late == pod {
		p.strange, p.late = false, ""
	}
	if p.expected == pod {
		p.expected, p.strange = "", false
		close(p.reserved)
	}
}
