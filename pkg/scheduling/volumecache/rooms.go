// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math"
	"slices"
)

// room is the storage of one class in one segment. It is one pool, also if several
// CSIStorageCapacity objects tell of it, as while a driver replaces one by another: the
// one that was written last counts. A room exists while it has objects or something
// is held.
type room struct {
	class   string
	segment *segment
	objects []*capacity
	newest  *capacity // of objects; nil: none
	holds   map[*hold]struct{}
	held    int64 // bytes of holds; math.MaxInt64: that many or more
	// counted is the bytes of all holds that countIn has given back; see hold.figure.
	counted int64
}

// roomOf returns the room of the class in the segment, made when there is none. It
// takes over the caller's use of the segment.
func (c *Cache) roomOf(class string, of *segment) *room {
	if r := of.Data.rooms[class]; r != nil {
		c.index.Release(of)
		return r
	}
	r := &room{class: class, segment: of, holds: map[*hold]struct{}{}}
	if of.Data.rooms == nil {
		of.Data.rooms = map[string]*room{}
	}
	of.Data.rooms[class] = r
	return r
}

// tidy forgets a room that nothing needs any more.
func (c *Cache) tidy(r *room) {
	if len(r.objects) == 0 && len(r.holds) == 0 && r.segment.Data.rooms[r.class] == r {
		delete(r.segment.Data.rooms, r.class)
		c.index.Release(r.segment)
	}
}

// add takes an object in that tells of the room.
func (r *room) add(a *capacity) {
	r.objects = append(slices.Clip(r.objects), a)
	if r.newest == nil || newer(a.object.ResourceVersion, r.newest.object.ResourceVersion) {
		r.newest = a
	}
}

// drop forgets an object.
func (r *room) drop(a *capacity) {
	objects := slices.DeleteFunc(slices.Clone(r.objects), func(o *capacity) bool { return o == a })
	r.objects, r.newest = nil, nil
	for _, o := range objects {
		r.add(o)
	}
}

// remaining is the bytes not held, never negative. The room must have an object.
func (r *room) remaining() int64 {
	if r.newest.total == math.MaxInt64 {
		return math.MaxInt64
	}
	return r.newest.total - min(r.newest.total, r.held)
}

// hold holds the bytes of a hold.
func (r *room) hold(h *hold) {
	h.room, h.figure = r, -1
	if r.limited() {
		h.figure = saturate(r.newest.total, r.counted)
	}
	r.holds[h] = struct{}{}
	r.held = saturate(r.held, h.bytes)
}

// vacate holds its bytes no more.
func (c *Cache) vacate(h *hold) {
	r := h.room
	if r == nil {
		return
	}
	h.room = nil
	c.unqueue(h)
	delete(r.holds, h)
	if r.held < math.MaxInt64 {
		r.held -= h.bytes
	} else {
		r.held = r.sum()
	}
	c.tidy(r)
}

// sum is held, worked out anew.
func (r *room) sum() int64 {
	var sum int64
	for h := range r.holds {
		sum = saturate(sum, h.bytes)
	}
	return sum
}

// limited tells whether giving back what is held can matter.
func (r *room) limited() bool { return r.newest != nil && r.newest.total < math.MaxInt64 }

// has tells whether the room, nil for none, has so many bytes left for one volume.
func (r *room) has(bytes int64) bool {
	return r != nil && r.newest != nil && bytes <= r.newest.largest && bytes <= r.remaining()
}

// countReported gives back what is held for volumes that the object counts in: it was
// taken in after they had appeared.
func (c *Cache) countReported(a *capacity) {
	if a != a.room.newest {
		return
	}
	for h := range a.room.holds {
		if h.turn > 0 && h.turn < a.turn {
			c.countIn(h)
		}
	}
}

// reported tells whether the room's bytes have fallen by those of the hold since it
// began: the driver counted the volume in before the volume was seen.
func (h *hold) reported() bool {
	return h.room != nil && h.room.limited() && h.figure >= 0 &&
		saturate(h.room.newest.total, h.bytes) <= h.figure-h.room.counted
}

// countIn gives back what is held for a volume that exists. What the room's bytes have
// fallen by for this one says nothing about the others.
func (c *Cache) countIn(h *hold) {
	h.room.counted = saturate(h.room.counted, h.bytes)
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
