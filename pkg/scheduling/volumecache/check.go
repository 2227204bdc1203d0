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
// its pool and nothing else is; holds, pods, volumes and capacity refer to
// each other; indexes match the objects. For tests: it reads everything.
func (c *Cache) Check() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	errs := []error{c.index.Check()}
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	inPools := 0
	for name, class := range c.free.class {
		ofClass := 0
		for segment, pool := range class.pools {
			inPools += pool.Len()
			ofClass += pool.Len()
			if pool.Len() == 0 || poolOf(segment, class) != pool {
				fail("class %q: pool of segment %q is empty or not the segment's", name, segment.Key())
			}
		}
		if c.free.byClass && class.all.Len() != ofClass {
			fail("class %q: %d volumes are in pools, %d in all", name, ofClass, class.all.Len())
		}
		if class.object == nil && len(class.pools) == 0 {
			fail("class %q has neither object nor volumes", name)
		}
	}
	for name, v := range c.volume {
		free := v.Free() && v.hold == nil
		switch {
		case free != (v.pool != nil):
			fail("volume %q: free and unreserved %t, in a pool %t", name, free, v.pool != nil)
		case free && poolOf(v.segment, c.free.class[v.Class]) != v.pool:
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
	for segment, volumes := range c.reclaiming.volumes {
		for v := range volumes {
			if v.segment != segment || c.volume[v.Name] != v {
				fail("volume %q is being reclaimed, but does not exist", v.Name)
			}
		}
	}
	c.checkHolds(fail)
	c.checkCapacityPools(fail)
	return errors.Join(errs...)
}

// CheckIdle verifies that nothing is kept for pods in flight or deleted pods. For tests,
// when no pod is in flight.
func (c *Cache) CheckIdle() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var errs []error
	for uid := range c.reserved.byPod {
		errs = append(errs, fmt.Errorf("pod %q has reservations", uid))
	}
	for uid := range c.expected {
		errs = append(errs, fmt.Errorf("pod %q is expected", uid))
	}
	pods, err := c.pods.List(labels.Everything())
	errs = append(errs, err)
	for uid := range c.nominated {
		if !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == uid }) {
			errs = append(errs, fmt.Errorf("deleted pod %q is nominated", uid))
		}
	}
	c.rejections.mu.Lock()
	for uid := range c.rejections.byPod {
		if !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == uid }) {
			errs = append(errs, fmt.Errorf("deleted pod %q has a rejection", uid))
		}
	}
	c.rejections.mu.Unlock()
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	for key := range c.watch.byKey {
		errs = append(errs, fmt.Errorf("%v is watched", key))
	}
	return errors.Join(errs...)
}

func (c *Cache) checkHolds(fail func(format string, args ...any)) {
	for claim, h := range c.reserved.byClaim {
		switch {
		case h.claim != claim:
			fail("hold of claim %s is indexed by claim %s", h.claim, claim)
		case h.volume != nil && (h.node != "" || h.volume.hold != h || c.volume[h.volume.Name] != h.volume):
			fail("hold of claim %s: its volume is not held by it, or it also provisions", claim)
		case len(h.pods) == 0 && h.node == "":
			fail("hold of claim %s has no pod", claim)
		case (h.pool != nil) != (h.element != nil):
			fail("hold of claim %s: it has bytes %t, they expire %t", claim, h.pool != nil, h.element != nil)
		case h.pool != nil && !h.pool.has(h):
			fail("hold of claim %s is not counted by its pool", claim)
		}
		for pod := range h.pods {
			if !slices.Contains(c.reserved.byPod[pod], h) {
				fail("hold of claim %s is not found by its pod %s", claim, pod)
			}
		}
	}
	for pod, list := range c.reserved.byPod {
		for _, h := range list {
			if _, ok := h.pods[pod]; !ok || c.reserved.byClaim[h.claim] != h {
				fail("pod %s lists a hold of claim %s that is not its own", pod, h.claim)
			}
		}
	}
}

// checkCapacityPools compares the capacity pools with their objects and holds.
func (c *Cache) checkCapacityPools(fail func(format string, args ...any)) {
	objects := map[*capacityPool]int{}
	for key, entry := range c.capacity {
		if objects[entry.pool]++; !slices.Contains(entry.pool.objects, entry) {
			fail("capacity %s is not in its pool", key)
		}
		if newer(entry.object.ResourceVersion, entry.pool.newest.object.ResourceVersion) {
			fail("capacity %s is newer than the newest object of its pool", key)
		}
	}
	for _, h := range c.reserved.byClaim {
		if h.pool != nil {
			objects[h.pool] += 0
		}
	}
	for p, count := range objects {
		switch {
		case p.segment.Data.capacity[p.class] != p || len(p.objects) != count || (p.newest == nil) != (count == 0):
			fail("pool of class %q is not that of segment %q, or has %d objects and not %d", p.class, p.segment.Key(), len(p.objects), count)
		case p.held != p.sum():
			fail("pool of class %q holds %d bytes, and counts %d", p.class, p.sum(), p.held)
		}
		for h := range p.holds {
			if h.pool != p || c.reserved.byClaim[h.claim] != h {
				fail("pool of class %q counts a hold of claim %s that does not exist", p.class, h.claim)
			}
		}
	}
}

func (p *capacityPool) has(h *hold) bool {
	_, ok := p.holds[h]
	return ok
}
