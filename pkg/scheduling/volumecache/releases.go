// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// releaseDelay is how long after a release listeners are called, and
	// releaseInterval how long after the previous call, so that one call covers many
	// releases.
	releaseDelay, releaseInterval = 100 * time.Millisecond, time.Second
	// maxReleases bounds how many releases are recorded separately.
	maxReleases = 1024
)

// releases records what reservations have released: no API event wakes the pods that
// were rejected while it was reserved. The lock of the Cache guards it.
type releases struct {
	listeners map[*Listener]struct{}
	// began is, until listeners are called, the sequence number at which the oldest of the
	// holds began that have released it.
	began   map[release]uint64
	call    func()      // calls the listeners, without the lock
	timer   *time.Timer // runs call; nil: nothing to do
	timerAt time.Time
	called  time.Time // when the listeners were called last
}

// Listener is called after something was released. waiting returns the pods that were
// rejected while it was reserved and that it can make schedulable; a pod is
// returned once in wakeInterval.
type Listener func(waiting func() []*v1.Pod)

// release is something that a reservation has released: volumes or bytes of a class in
// a segment, or the choice of a node for a claim; or that a nomination has: what can be
// reached from a node. The zero release is anything.
type release struct {
	class   string
	segment *segment
	claim   types.NamespacedName
	node    string
	// group is the pod group of the pod that had reserved. Its pods are tried
	// together: what one releases after a failed attempt does not help the others.
	group string
}

// note records what a hold has released in a segment, or for its claim if that is nil.
func (r *releases) note(h *hold, class string, of *segment) {
	released := release{class: class, segment: of, group: h.group}
	if of == nil {
		released.claim = h.claim
	}
	r.record(released, h.began)
}

// record adds a release of what was unavailable to pods since the sequence number.
func (r *releases) record(released release, began uint64) {
	if len(r.listeners) == 0 {
		return
	}
	if len(r.began) >= maxReleases {
		released = release{}
	}
	if oldest, ok := r.began[released]; !ok || began < oldest {
		r.began[released] = began
	}
	at, earliest := time.Now().Add(releaseDelay), r.called.Add(releaseInterval)
	if at.Before(earliest) {
		at = earliest
	}
	r.arm(at)
}

// arm schedules a call of the listeners no later than at.
func (r *releases) arm(at time.Time) {
	if len(r.listeners) == 0 || r.timer != nil && !at.Before(r.timerAt) {
		return
	}
	r.stop()
	r.timer, r.timerAt = time.AfterFunc(time.Until(at), r.call), at
}

func (r *releases) stop() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// OnRelease calls the listener, from its own goroutine and without locks, soon
// after reservations were released without success or have expired. The caller calls
// stop when done, which does not wait for a running call.
func (c *Cache) OnRelease(listener Listener) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releases.listeners[&listener] = struct{}{}
	c.reserved.armExpiry()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.releases.listeners, &listener)
		if len(c.releases.listeners) == 0 {
			c.releases.stop()
		}
	}
}

// callListeners passes to the listeners what was released since the last call.
func (c *Cache) callListeners() {
	c.mu.Lock()
	r := &c.releases
	r.timer = nil
	c.reserved.expire()
	released, now := r.began, time.Now()
	r.began, r.called = map[release]uint64{}, now
	c.reserved.armExpiry()
	var listeners []Listener
	for listener := range r.listeners {
		listeners = append(listeners, *listener)
	}
	c.mu.Unlock()
	waiting := sync.OnceValue(func() []*v1.Pod { return c.wakeable(released, now) })
	for _, listener := range listeners {
		listener(waiting)
	}
}

// expireDue is reservations.expire for callers without the lock.
func (c *Cache) expireDue() {
	c.mu.RLock()
	h, at := c.reserved.nextExpiry()
	due := h != nil && c.clock.Now().After(at)
	c.mu.RUnlock()
	if due {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reserved.expire()
	}
}
