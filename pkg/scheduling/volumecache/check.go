// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Check verifies the cache's invariants: every free, unreserved volume is in
// its pool and nothing else is; holds, pods, volumes and capacity point at
// each other; indexes agree with the objects. For tests: it walks everything.
func (c *Cache) Check() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	errs := []error{c.index.Check()}
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	inPools := 0
	for name, class := range c.class {
		for segment, pool := range class.pools {
			inPools += pool.Len()
			if pool.Len() == 0 || poolOf(segment, class) != pool {
				fail("class %q: pool of segment %q is empty or not the segment's", name, segment.Key())
			}
		}
		if class.object == nil && len(class.pools) == 0 {
			fail("class %q is kept for nothing", name)
		}
	}
	for name, v := range c.volume {
		free := v.Free() && v.hold == nil
		switch {
		case free != (v.pool != nil):
			fail("volume %q: free and unreserved %t, in a pool %t", name, free, v.pool != nil)
		case free && poolOf(v.segment, c.class[v.Class]) != v.pool:
			fail("volume %q is in a pool that is not its segment's", name)
		case v.hold != nil && v.hold.volume != v:
			fail("volume %q: its hold is on another volume", name)
		case v.claim.Name != "" && !slices.Contains(c.byClaim[v.claim], v):
			fail("volume %q is not found by its claim %s", name, v.claim)
		}
		if free {
			inPools--
		}
	}
	if inPools != 0 {
		fail("pools hold %d volumes more than are free", inPools)
	}
	for segment, returning := range c.returning.volumes {
		for v := range returning {
			if v.segment != segment || c.volume[v.Name] != v {
				fail("volume %q is on its way back, but is not there", v.Name)
			}
		}
	}
	c.checkShelves(fail)
	c.checkHolds(fail)
	c.checkRooms(fail)
	return errors.Join(errs...)
}

// CheckIdle verifies that nothing is kept of pods in flight, nor of those that are
// gone. For tests, when none is in flight.
func (c *Cache) CheckIdle() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var errs []error
	for uid := range c.byPod {
		errs = append(errs, fmt.Errorf("pod %q has something reserved", uid))
	}
	for uid := range c.expected {
		errs = append(errs, fmt.Errorf("pod %q is expected", uid))
	}
	pods, err := c.pods.List(labels.Everything())
	errs = append(errs, err)
	for uid := range c.nominated {
		if !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == uid }) {
			errs = append(errs, fmt.Errorf("pod %q, which is gone, is nominated", uid))
		}
	}
	c.ledger.mu.Lock()
	for uid := range c.ledger.refused {
		if !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == uid }) {
			errs = append(errs, fmt.Errorf("pod %q, which is gone, is to be woken", uid))
		}
	}
	c.ledger.mu.Unlock()
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	for key := range c.watch.byKey {
		errs = append(errs, fmt.Errorf("%v is watched", key))
	}
	return errors.Join(errs...)
}

// checkShelves holds the shelves of nodes against the pools of their segments.
func (c *Cache) checkShelves(fail func(format string, args ...any)) {
	shelved := 0
	for name, class := range c.class {
		wide := 0
		for segment, pool := range class.pools {
			if segment.Len() > 1 {
				wide++
			}
			home := segment.Only()
			if segment.Data.home != home || segment.Data.wide != (segment.Len() > 1) {
				fail("segment %q has %d nodes, but its pools are kept for others", segment.Key(), segment.Len())
			}
			if home == nil {
				continue
			}
			shelved++
			i := slices.IndexFunc(home.Data.list, func(o shelf) bool { return o.pool == pool })
			if i < 0 || home.Data.list[i].class != class {
				fail("class %q: the pool of segment %q is not on the shelf of its node", name, segment.Key())
				continue
			}
			if uniform, alike := pool.Uniform(); alike != home.Data.list[i].alike || !home.Data.list[i].uniform.Same(&uniform) {
				fail("class %q: the shelf of node %q is not up to date", name, home.Name)
			}
		}
		if class.wide != wide {
			fail("class %q has %d wide pools, but counts %d", name, wide, class.wide)
		}
	}
	for entry := range c.index.Nodes {
		shelved -= len(entry.Data.list)
	}
	if shelved != 0 {
		fail("the shelves of nodes hold %d pools less than they should", shelved)
	}
}

func (c *Cache) checkHolds(fail func(format string, args ...any)) {
	for claim, h := range c.holds {
		switch {
		case h.claim != claim:
			fail("hold of claim %s is filed under %s", h.claim, claim)
		case h.volume != nil && (h.node != "" || h.volume.hold != h || c.volume[h.volume.Name] != h.volume):
			fail("hold of claim %s: its volume is not held by it, or it also provisions", claim)
		case len(h.pods) == 0 && h.node == "":
			fail("hold of claim %s has no pod", claim)
		case (h.room != nil) != (h.place != nil):
			fail("hold of claim %s: it has bytes %t, they expire %t", claim, h.room != nil, h.place != nil)
		case h.room != nil && !holds(h.room, h):
			fail("hold of claim %s is not counted by its room", claim)
		}
		for pod := range h.pods {
			if !slices.Contains(c.byPod[pod], h) {
				fail("hold of claim %s is not found by its pod %s", claim, pod)
			}
		}
	}
	for pod, list := range c.byPod {
		for _, h := range list {
			if _, ok := h.pods[pod]; !ok || c.holds[h.claim] != h {
				fail("pod %s lists a hold of claim %s that is not its own", pod, h.claim)
			}
		}
	}
}

// checkRooms holds the rooms against their objects and holds.
func (c *Cache) checkRooms(fail func(format string, args ...any)) {
	objects := map[*room]int{}
	for key, entry := range c.capacity {
		if objects[entry.room]++; !slices.Contains(entry.room.objects, entry) {
			fail("capacity %s is not in its room", key)
		}
		if newer(entry.object.ResourceVersion, entry.room.newest.object.ResourceVersion) {
			fail("capacity %s is newer than what its room goes by", key)
		}
	}
	for _, h := range c.holds {
		if h.room != nil {
			objects[h.room] += 0
		}
	}
	for r, count := range objects {
		switch {
		case r.segment.Data.rooms[r.class] != r || len(r.objects) != count || (r.newest == nil) != (count == 0):
			fail("room of class %q is not that of segment %q, or has %d objects and not %d", r.class, r.segment.Key(), len(r.objects), count)
		case r.held != r.sum():
			fail("room of class %q holds %d bytes, and counts %d", r.class, r.sum(), r.held)
		}
		for h := range r.holds {
			if h.room != r || c.holds[h.claim] != h {
				fail("room of class %q counts a hold of claim %s that is not there", r.class, h.claim)
			}
		}
	}
}

func holds(r *room, h *hold) bool {
	_, ok := r.holds[h]
	return ok
}
