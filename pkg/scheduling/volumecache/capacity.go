// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/topology"
)

// capacity is a CSIStorageCapacity in the cache.
type capacity struct {
	object  *storagev1.CSIStorageCapacity
	room    *room
	turn    uint64 // of when it was taken in
	total   int64  // bytes; math.MaxInt64: not stated
	largest int64  // bytes of the largest volume; math.MaxInt64: not stated
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
	entry := &capacity{object: object, turn: c.nextTurn(), total: math.MaxInt64}
	if object.Capacity != nil {
		entry.total = object.Capacity.Value()
		entry.largest = math.MaxInt64 // what remains is the bound
	}
	if object.MaximumVolumeSize != nil {
		entry.largest = object.MaximumVolumeSize.Value()
	}
	entry.room = c.roomOf(object.StorageClassName, c.index.Acquire(topology.FromLabelSelector(object.NodeTopology)))
	c.capacity[key] = entry
	entry.room.add(entry)
	if old != nil {
		c.dropCapacity(old)
	}
	c.countReported(entry)
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

// dropCapacity takes the object out of its room.
func (c *Cache) dropCapacity(entry *capacity) {
	entry.room.drop(entry)
	c.tidy(entry.room)
}

// share is what one question has already taken of a room.
type share struct {
	of    *room
	left  int64 // bytes that nothing has taken, before the question
	taken int64
}

// openRooms lists the rooms of the class on the spot, the one with the most bytes left
// first, ties by name. freed bytes count as free everywhere: evicted pods would give
// them back. besides is what others will take.
func (s *solution) openRooms(at spot, class string, freed int64, besides map[CapacityPool]int64) {
	s.shares = s.shares[:0]
	for _, segment := range at.segments {
		r := segment.Data.rooms[class]
		if r == nil || r.newest == nil {
			continue
		}
		left := r.remaining()
		if left != math.MaxInt64 {
			left = max(0, saturate(left, freed)-besides[CapacityPool{r}])
		}
		s.shares = append(s.shares, share{of: r, left: left})
	}
	slices.SortFunc(s.shares, func(a, b share) int {
		if a.left != b.left {
			return cmp.Compare(b.left, a.left)
		}
		return a.of.newest.compare(b.of.newest)
	})
}

// allot finds the room with the most bytes left for a volume of so many bytes; nil if
// none has as many.
func (s *solution) allot(bytes int64) *room {
	best := -1
	for i := range s.shares {
		left := s.shares[i].left - s.shares[i].taken
		if bytes <= s.shares[i].of.newest.largest && bytes <= left && (best < 0 || left > s.shares[best].left-s.shares[best].taken) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	if s.shares[best].left < math.MaxInt64 {
		s.shares[best].taken += bytes
	}
	return s.shares[best].of
}

// held tells whether a volume of so many bytes would fit if nothing was held.
func (s *solution) held(bytes int64) bool {
	return slices.ContainsFunc(s.shares, func(share share) bool {
		return share.of.held > 0 && bytes <= min(share.of.newest.total, share.of.newest.largest)
	})
}

// allotTogether finds rooms for several volumes, where taking the one with the most
// bytes left for each may fail though there is a way. It tells whether there is one,
// for no more than maxTogether volumes. The rooms are then the provisions'.
//
// Of the sets of volumes that the first rooms can have together it keeps all, as bits,
// and for each the set that the last of these rooms gets.
func (s *solution) allotTogether(provisions []*provision) bool {
	if len(s.shares) < 2 || len(provisions) > maxTogether {
		return false // with one room, one way is as good as another
	}
	all := 1<<len(provisions) - 1
	var sum, largest [1 << maxTogether]int64
	for set := 1; set <= all; set++ {
		last := bits.Len(uint(set)) - 1
		rest := set &^ (1 << last)
		sum[set] = saturate(sum[rest], provisions[last].of.Bytes)
		largest[set] = max(largest[rest], provisions[last].of.Bytes)
	}
	var reached [1 << maxTogether]bool
	reached[0] = true
	s.rows = s.rows[:0]
	for i := range s.shares {
		var row [1 << maxTogether]uint8
		for set := all; set > 0; set-- { // what a set is made of is smaller: not of this room yet
			for part := set; part > 0 && !reached[set]; part = (part - 1) & set {
				if reached[set&^part] && sum[part] <= s.shares[i].left && largest[part] <= s.shares[i].of.newest.largest {
					reached[set], row[set] = true, uint8(part)
				}
			}
		}
		if s.rows = append(s.rows, row); reached[all] {
			break
		}
	}
	if !reached[all] {
		return false
	}
	for i, set := len(s.rows)-1, all; set > 0; i-- {
		part := int(s.rows[i][set])
		for j, p := range provisions {
			if part&(1<<j) != 0 {
				p.room = s.shares[i].of
			}
		}
		set &^= part
	}
	return true
}

// maxTogether is how many volumes allotTogether can find rooms for.
const maxTogether = 8

// compare orders objects by name.
func (a *capacity) compare(b *capacity) int {
	return cmp.Or(cmp.Compare(a.object.Namespace, b.object.Namespace), cmp.Compare(a.object.Name, b.object.Name))
}
