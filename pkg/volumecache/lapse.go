// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// settleTime bounds how long the bytes of a volume that exists are still held:
// a driver that never updates its capacity object must not block it for ever.
const settleTime = 2 * time.Minute

// lapsePause is how long after its time the end of a hold is told at the latest,
// so that many of them are told together.
const lapsePause = time.Second

// lapses are the ends of holds whose time is over. No event goes with them.
type lapses struct {
	queue     []appearance // the longest since first
	listeners map[*func(helps func(*Demand) bool)]struct{}
	rooms     map[*room]struct{} // that bytes were given back to since listeners were told
	timer     *time.Timer        // tells them; nil: nobody listens, or nothing is queued
}

// appearance is of the volume that a claim's hold was for.
type appearance struct {
	claim types.NamespacedName
	turn  uint64 // the hold's
	at    time.Time
}

// due tells whether the time of some hold is over.
func (l *lapses) due(now time.Time) bool {
	return len(l.queue) > 0 && now.Sub(l.queue[0].at) > settleTime
}

// noteAppeared notes that the volume which a hold is for exists.
func (c *Cache) noteAppeared(h *hold) {
	h.turn = c.nextTurn()
	if h.room == nil {
		return
	}
	c.sweep() // also where nobody asks
	c.lapse.queue = append(c.lapse.queue, appearance{h.claim, h.turn, c.clock.Now()})
	c.armLapse()
}

// sweep gives back what was held for settleTime. Each hold is looked at once.
func (c *Cache) sweep() {
	l, now := &c.lapse, c.clock.Now()
	for l.due(now) {
		first := l.queue[0]
		l.queue = l.queue[1:]
		h := c.holds[first.claim]
		if h == nil || h.turn != first.turn || h.room == nil {
			continue // given back before
		}
		if len(l.listeners) > 0 {
			l.rooms[h.room] = struct{}{}
		}
		c.countIn(h)
	}
}

// sweepDue is sweep for callers without the lock.
func (c *Cache) sweepDue() {
	c.mu.RLock()
	due := c.lapse.due(c.clock.Now())
	c.mu.RUnlock()
	if due {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sweep()
	}
}

// OnLapse has tell called, from a goroutine of its own and without locks, soon
// after capacity was given back because its time was over: pods that wait for it
// hear of no event. helps tells whether it can make a pod schedulable; it is safe for
// concurrent use. The caller calls stop when done; a call under way is not waited
// for.
func (c *Cache) OnLapse(tell func(helps func(*Demand) bool)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listener := &tell
	c.lapse.listeners[listener] = struct{}{}
	c.armLapse()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.lapse.listeners, listener)
		if len(c.lapse.listeners) == 0 && c.lapse.timer != nil {
			c.lapse.timer.Stop()
			c.lapse.timer = nil
		}
	}
}

// armLapse has the listeners told when the next hold is over.
func (c *Cache) armLapse() {
	l := &c.lapse
	if l.timer == nil && len(l.queue) > 0 && len(l.listeners) > 0 {
		l.timer = time.AfterFunc(max(0, settleTime-c.clock.Since(l.queue[0].at))+lapsePause, c.tellLapses)
	}
}

// tellSoon has the listeners told that bytes of the room were given back, although the
// time of no hold is over.
func (c *Cache) tellSoon(r *room) {
	l := &c.lapse
	if len(l.listeners) == 0 {
		return
	}
	l.rooms[r] = struct{}{}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(lapsePause, c.tellLapses)
}

// tellLapses tells the listeners what was given back.
func (c *Cache) tellLapses() {
	c.mu.Lock()
	c.sweep()
	rooms := c.lapse.rooms
	c.lapse.rooms, c.lapse.timer = map[*room]struct{}{}, nil
	c.armLapse()
	var listeners []func(func(*Demand) bool)
	for listener := range c.lapse.listeners {
		listeners = append(listeners, *listener)
	}
	c.mu.Unlock()
	if len(rooms) == 0 {
		return
	}
	for _, tell := range listeners {
		tell(func(d *Demand) bool {
			for r := range rooms {
				if c.roomHelps(d, r) {
					return true
				}
			}
			return false
		})
	}
}
