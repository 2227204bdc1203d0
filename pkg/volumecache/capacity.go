// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"cmp"
	"math"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/volume/topology"
)

// capacity is a CSIStorageCapacity in the cache with what is held of it.
type capacity struct {
	object  *storagev1.CSIStorageCapacity
	room    *room
	turn    uint64 // of when it was taken in
	total   int64  // bytes; math.MaxInt64: not stated
	largest int64  // bytes of the largest volume; math.MaxInt64: not stated
	holds   map[*hold]struct{}
	held    int64 // bytes of holds; math.MaxInt64: that many or more
}

// remaining is the bytes not held, never negative.
func (a *capacity) remaining() int64 {
	if a.total == math.MaxInt64 {
		return a.total
	}
	return a.total - min(a.total, a.held)
}

// ObserveCapacity brings the cache up to what the informer's store has for the
// object.
func (c *Cache) ObserveCapacity(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	c.mu.RLock()
	current := c.hasCapacity(key)
	c.mu.RUnlock()
	if current {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if object, err := c.capacities.CSIStorageCapacities(namespace).Get(name); err == nil {
		c.setCapacity(object)
	} else if entry := c.capacity[key]; entry != nil {
		delete(c.capacity, key)
		c.dropCapacity(entry)
	}
}

// hasCapacity tells whether the cache has of an object what the informer's store
// has.
func (c *Cache) hasCapacity(key types.NamespacedName) bool {
	entry := c.capacity[key]
	object, err := c.capacities.CSIStorageCapacities(key.Namespace).Get(key.Name)
	if err != nil || entry == nil {
		return err != nil && entry == nil
	}
	return entry.object.ResourceVersion == object.ResourceVersion
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
	old := c.capacity[key]
	if old != nil && old.object.UID == object.UID && !newer(object.ResourceVersion, old.object.ResourceVersion) {
		return
	}
	entry := &capacity{object: object, turn: c.nextTurn(), total: math.MaxInt64, holds: map[*hold]struct{}{}}
	if object.Capacity != nil {
		entry.total = object.Capacity.Value()
		entry.largest = math.MaxInt64 // what remains is the bound
	}
	if object.MaximumVolumeSize != nil {
		entry.largest = object.MaximumVolumeSize.Value()
	}
	entry.room = c.roomOf(object.StorageClassName, c.index.Acquire(topology.FromLabelSelector(object.NodeTopology)))
	entry.room.objects = append(entry.room.objects, entry)
	c.capacity[key] = entry
	if entry.room.gone != nil {
		c.take(entry, entry.room.gone)
		entry.room.gone = nil
	}
	if old != nil {
		c.dropCapacity(old)
		c.noteCapacity(object.StorageClassName)
	}
}

func (c *Cache) removeCapacity(object *storagev1.CSIStorageCapacity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	entry := c.capacity[key]
	if entry == nil || (entry.object.UID != object.UID && newer(entry.object.ResourceVersion, object.ResourceVersion)) {
		return
	}
	delete(c.capacity, key)
	c.dropCapacity(entry)
}

// dropCapacity takes the object out of its room. What is held of it is held of the
// newest object there, or kept for the next one.
func (c *Cache) dropCapacity(entry *capacity) {
	r := entry.room
	r.objects = slices.DeleteFunc(slices.Clone(r.objects), func(o *capacity) bool { return o == entry })
	if len(r.objects) > 0 {
		c.take(slices.MaxFunc(r.objects, func(a, b *capacity) int { return cmp.Compare(a.turn, b.turn) }), entry)
	} else {
		r.gone = entry
	}
	c.tidy(r)
}

// share is what one question has already taken of a capacity object.
type share struct {
	of    *capacity
	taken int64
}

// allot finds room for bytes on the spot: of the objects that are large enough
// the roomiest one, ties by name. freed bytes count as free everywhere: evicted
// pods would give them back. It returns nil when there is no room.
func (s *solution) allot(at spot, class string, bytes, freed int64) *capacity {
	best, bestLeft := -1, int64(-1)
	for _, segment := range at.segments {
		r := segment.Data.rooms[class]
		if r == nil {
			continue
		}
		for _, candidate := range r.objects {
			if bytes > candidate.largest {
				continue
			}
			i := s.shareOf(candidate)
			left := candidate.remaining()
			if left != math.MaxInt64 {
				left = max(0, saturate(left, freed)-s.besides[CapacityPool{r}]) - s.shares[i].taken
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
