// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math"
	"slices"
)

// room is the storage of one class in one segment: the CSIStorageCapacity objects
// that tell of it, as a rule one. A driver may make an object anew under another
// name; what was held of it is then held of the new one. A room exists while it has
// objects or something is held.
type room struct {
	class   string
	segment *segment
	objects []*capacity
	// gone keeps what was held of objects that are gone until there is another
	// one; nil: nothing.
	gone *capacity
}

// roomOf returns the room of the class in the segment, made when there is none. It
// takes over the caller's use of the segment.
func (c *Cache) roomOf(class string, of *segment) *room {
	if r := of.Data.rooms[class]; r != nil {
		c.index.Release(of)
		return r
	}
	r := &room{class: class, segment: of}
	if of.Data.rooms == nil {
		of.Data.rooms = map[string]*room{}
	}
	of.Data.rooms[class] = r
	return r
}

// tidy forgets a room that nothing needs any more.
func (c *Cache) tidy(r *room) {
	if r.gone != nil && len(r.gone.holds) == 0 {
		r.gone = nil
	}
	if len(r.objects) == 0 && r.gone == nil {
		delete(r.segment.Data.rooms, r.class)
		c.index.Release(r.segment)
	}
}

// hold holds the bytes of a hold.
func (a *capacity) hold(h *hold) {
	h.capacity = a
	a.holds[h] = struct{}{}
	a.held = saturate(a.held, h.bytes)
}

// take takes over what is held of another object, and gives back what is held for
// volumes that this one counts in: it was taken in after they had appeared.
func (c *Cache) take(a, from *capacity) {
	for h := range from.holds {
		if a.hold(h); h.turn > 0 && h.turn < a.turn {
			c.countIn(h)
		}
	}
	from.holds, from.held = nil, 0
}

// vacate holds its bytes no more.
func (c *Cache) vacate(h *hold) {
	a := h.capacity
	if a == nil {
		return
	}
	h.capacity = nil
	delete(a.holds, h)
	if a.held < math.MaxInt64 {
		a.held -= h.bytes
	} else {
		a.held = a.sum()
	}
	c.tidy(a.room)
}

// sum is held, worked out anew.
func (a *capacity) sum() int64 {
	var sum int64
	for h := range a.holds {
		sum = saturate(sum, h.bytes)
	}
	return sum
}

// limited tells whether giving back what is held can matter.
func (r *room) limited() bool {
	return slices.ContainsFunc(r.objects, func(a *capacity) bool { return a.total < math.MaxInt64 })
}

// has tells whether an object of the room has so many bytes left for one volume.
func (r *room) has(bytes int64) bool {
	return slices.ContainsFunc(r.objects, func(a *capacity) bool { return bytes <= a.largest && bytes <= a.remaining() })
}

// countIn gives back what is held for a volume that exists.
func (c *Cache) countIn(h *hold) {
	c.vacate(h)
	if len(h.pods) == 0 {
		c.endHold(h)
	}
}

// nextTurn numbers what is taken in of volumes and capacity, in that order.
func (c *Cache) nextTurn() uint64 {
	c.turn++
	return c.turn
}
