// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"container/list"
	"time"
)

const (
	// reportTime bounds how long the bytes of an existing volume are held: a driver that
	// never updates its capacity object must not block them forever.
	reportTime = 2 * time.Minute
	// provisionTime bounds how long bytes are held for a claim that has a selected node
	// and no volume: its provisioner may be gone or fail permanently.
	provisionTime = 15 * time.Minute
)

// enqueue lets the hold's bytes expire reportTime or provisionTime from now.
func (r *reservations) enqueue(h *hold, queue *list.List) {
	r.expire() // also where no pod is scheduled
	r.dequeue(h)
	h.since, h.queue = r.clock.Now(), queue
	h.element = queue.PushBack(h)
	r.armExpiry()
}

func (r *reservations) dequeue(h *hold) {
	if h.element != nil {
		h.queue.Remove(h.element)
		h.element = nil
	}
}

// expire releases the bytes of holds whose time has passed. It reads only holds that
// expire.
func (r *reservations) expire() {
	for now := r.clock.Now(); ; {
		h, at := r.nextExpiry()
		if h == nil || !now.After(at) {
			return
		}
		pool := h.pool
		if h.appeared > 0 {
			r.countIn(h)
		} else {
			r.releaseBytes(h) // the hold remains while the claim has the selected node
			h.overdue = true
		}
		r.releases.note(h, pool.class, pool.segment)
	}
}

// nextExpiry returns the hold that expires next, nil for none, and when.
func (r *reservations) nextExpiry() (first *hold, at time.Time) {
	if front := r.unreported.Front(); front != nil {
		first = front.Value.(*hold)
		at = first.since.Add(reportTime)
	}
	if front := r.provisioning.Front(); front != nil {
		h := front.Value.(*hold)
		if due := h.since.Add(provisionTime); first == nil || due.Before(at) {
			first, at = h, due
		}
	}
	return first, at
}

// armExpiry schedules a call of the listeners for when the next hold expires.
func (r *reservations) armExpiry() {
	if h, at := r.nextExpiry(); h != nil {
		r.releases.arm(time.Now().Add(max(0, at.Sub(r.clock.Now())) + releaseInterval))
	}
}

// countIn releases the bytes held for a volume that exists: the driver's report includes
// it, or reportTime has passed. Its bytes in the report do not count for other holds.
func (r *reservations) countIn(h *hold) {
	pool := h.pool
	r.releaseBytes(h)
	pool.counted = saturate(pool.counted, h.bytes)
	r.endUnused(h)
}

// releaseBytes releases the hold's bytes; the hold remains.
func (r *reservations) releaseBytes(h *hold) {
	if p := h.pool; p != nil {
		r.dequeue(h)
		p.removeHold(h)
		p.dropIfUnused(r.index)
	}
}
