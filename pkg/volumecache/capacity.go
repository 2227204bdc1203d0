// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/volume/topology"
)

// settleTime bounds how long the bytes of a volume that exists are still held:
// a driver that never updates its capacity object must not block it for ever.
const settleTime = 2 * time.Minute

// capacity is a CSIStorageCapacity in the cache with what is held of it.
type capacity struct {
	object  *storagev1.CSIStorageCapacity
	segment *segment
	total   int64 // bytes; math.MaxInt64: not stated
	largest int64 // bytes of the largest volume; math.MaxInt64: not stated
	holds   map[*hold]struct{}
}

// remaining is the bytes not held, never negative.
func (a *capacity) remaining(now time.Time) int64 {
	left := a.total
	if left == math.MaxInt64 {
		return left
	}
	for h := range a.holds {
		if !h.over(now) {
			left -= min(left, h.bytes)
		}
	}
	return left
}

// ObserveCapacity brings the cache up to what the informer's store has for the
// object.
func (c *Cache) ObserveCapacity(namespace, name string) {
	object, err := c.capacities.CSIStorageCapacities(namespace).Get(name)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setCapacity(object)
}

// setCapacity takes in a capacity object, unless the cache has seen a newer
// state of it or it has left the informer's store.
func (c *Cache) setCapacity(object *storagev1.CSIStorageCapacity) {
	stored, err := c.capacities.CSIStorageCapacities(object.Namespace).Get(object.Name)
	if err != nil {
		return
	}
	if newer(stored.ResourceVersion, object.ResourceVersion) {
		object = stored
	}
	key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	entry := &capacity{object: object, total: math.MaxInt64, holds: map[*hold]struct{}{}}
	if old := c.capacity[key]; old != nil {
		if old.object.UID == object.UID && !newer(object.ResourceVersion, old.object.ResourceVersion) {
			return
		}
		c.dropCapacity(old)
		for h := range old.holds {
			// An update after the volume appeared is taken to count it in.
			if h.capacity = nil; h.appeared.IsZero() {
				h.capacity = entry
				entry.holds[h] = struct{}{}
			} else if len(h.pods) == 0 {
				c.endHold(h)
			}
		}
		c.noteCapacity(object.StorageClassName)
	}
	if object.Capacity != nil {
		entry.total = object.Capacity.Value()
		entry.largest = math.MaxInt64 // what remains is the bound
	}
	if object.MaximumVolumeSize != nil {
		entry.largest = object.MaximumVolumeSize.Value()
	}
	entry.segment = c.index.Acquire(topology.FromLabelSelector(object.NodeTopology))
	data := &entry.segment.Data
	if data.capacities == nil {
		data.capacities = map[string][]*capacity{}
	}
	data.capacities[object.StorageClassName] = append(data.capacities[object.StorageClassName], entry)
	c.capacity[key] = entry
}

func (c *Cache) removeCapacity(object *storagev1.CSIStorageCapacity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	entry := c.capacity[key]
	if entry == nil || (entry.object.UID != object.UID && newer(entry.object.ResourceVersion, object.ResourceVersion)) {
		return
	}
	c.dropCapacity(entry)
	for h := range entry.holds {
		h.capacity = nil
	}
	delete(c.capacity, key)
}

// dropCapacity takes the object out of its segment.
func (c *Cache) dropCapacity(entry *capacity) {
	byClass, class := entry.segment.Data.capacities, entry.object.StorageClassName
	rest := slices.DeleteFunc(slices.Clone(byClass[class]), func(o *capacity) bool { return o == entry })
	if len(rest) > 0 {
		byClass[class] = rest
	} else {
		delete(byClass, class)
	}
	c.index.Release(entry.segment)
}

// share is what one question has already taken of a capacity object.
type share struct {
	of    *capacity
	taken int64
}

// allot finds room for bytes on the spot: of the objects that are large enough
// the roomiest one, ties by name. extra bytes count as free everywhere (what
// evicted pods would give back), or as taken when negative (what others will
// take). It returns nil when there is no room.
func (s *solution) allot(at spot, class string, bytes, extra int64, now time.Time) *capacity {
	best, bestLeft := -1, int64(-1)
	for _, segment := range at.segments {
		for _, candidate := range segment.Data.capacities[class] {
			if bytes > candidate.largest {
				continue
			}
			i := s.shareOf(candidate)
			left := candidate.remaining(now)
			if left != math.MaxInt64 {
				if extra < 0 {
					left = max(0, left+extra)
				} else {
					left = saturate(left, extra)
				}
				left -= s.shares[i].taken
			}
			if left < bytes || left < bestLeft {
				continue
			}
			if left > bestLeft || candidate.before(s.shares[best].of) {
				best, bestLeft = i, left
			}
		}
	}
	if best < 0 {
		return nil
	}
	s.shares[best].taken += bytes
	return s.shares[best].of
}

func (s *solution) shareOf(of *capacity) int {
	for i := range s.shares {
		if s.shares[i].of == of {
			return i
		}
	}
	s.shares = append(s.shares, share{of: of})
	return len(s.shares) - 1
}

func (a *capacity) before(b *capacity) bool {
	if a.object.Namespace != b.object.Namespace {
		return a.object.Namespace < b.object.Namespace
	}
	return a.object.Name < b.object.Name
}
