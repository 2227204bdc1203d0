// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// capacity is an indexed CSIStorageCapacity.
type capacity struct {
	object   *storagev1.CSIStorageCapacity
	pool     *capacityPool
	sequence uint64 // at which it was observed
	total    int64  // bytes; math.MaxInt64: not stated
	largest  int64  // bytes of the largest volume; math.MaxInt64: not stated
	// counted are the claims whose volumes the report includes although they do not exist yet; nil
	// for drivers that do not state them.
	counted sets.Set[types.UID]
}

// ObserveCapacity updates the cache to the state of the object in the informer's store,
// or to its deletion.
func (c *Cache) ObserveCapacity(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	c.mu.RLock()
	current := c.capacityCurrent(key)
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

func (c *Cache) capacityCurrent(key types.NamespacedName) bool {
	entry := c.capacity[key]
	object, err := c.capacities.CSIStorageCapacities(key.Namespace).Get(key.Name)
	if err != nil || entry == nil {
		return err != nil && entry == nil
	}
	return entry.object.ResourceVersion == object.ResourceVersion
}

// setCapacity indexes a capacity object, unless the cache has observed a newer
// state of it or it was removed from the informer's store.
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
	entry := &capacity{object: object, sequence: c.reserved.nextSequence(), total: math.MaxInt64}
	if object.Capacity != nil {
		entry.total = object.Capacity.Value()
		entry.largest = math.MaxInt64 // bounded by what remains
	}
	if object.MaximumVolumeSize != nil {
		entry.largest = object.MaximumVolumeSize.Value()
	}
	if uids := object.Annotations[wellknown.PavCountedAnnotation]; uids != "" {
		entry.counted = sets.New[types.UID]()
		for uid := range strings.SplitSeq(uids, ",") {
			entry.counted.Insert(types.UID(uid))
		}
	}
	entry.pool = c.capacityPoolOf(object.StorageClassName, c.index.Acquire(topology.FromLabelSelector(object.NodeTopology)))
	c.capacity[key] = entry
	entry.pool.addObject(entry)
	if old != nil {
		c.dropCapacity(old)
	}
	c.reserved.capacityReported(entry)
}

func (c *Cache) capacityDeleted(object *storagev1.CSIStorageCapacity) {
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

func (c *Cache) dropCapacity(entry *capacity) {
	entry.pool.removeObject(entry)
	entry.pool.dropIfUnused(c.index)
}

// capacityPool is the storage capacity of one class in one segment. It stays one pool
// if several CSIStorageCapacity objects describe it, for example while a driver replaces
// one by another: the object written last counts. A capacityPool exists while it has
// objects or holds.
type capacityPool struct {
	class   string
	segment *segment
	objects []*capacity
	newest  *capacity // of objects; nil: none
	holds   map[*hold]struct{}
	held    int64 // bytes of holds; math.MaxInt64: that many or more
	// counted is the bytes of all holds that ended because the report includes them; see
	// hold.reportedAtStart.
	counted int64
}

// addObject adds a CSIStorageCapacity object that describes the pool.
func (p *capacityPool) addObject(a *capacity) {
	p.objects = append(slices.Clip(p.objects), a)
	if p.newest == nil || newer(a.object.ResourceVersion, p.newest.object.ResourceVersion) {
		p.newest = a
	}
}

func (p *capacityPool) removeObject(a *capacity) {
	objects := slices.DeleteFunc(slices.Clone(p.objects), func(o *capacity) bool { return o == a })
	p.objects, p.newest = nil, nil
	for _, o := range objects {
		p.addObject(o)
	}
}

func (p *capacityPool) addHold(h *hold) {
	h.pool, h.reportedAtStart = p, -1
	if p.limited() {
		h.reportedAtStart = saturate(p.newest.total, p.counted)
	}
	p.holds[h] = struct{}{}
	p.held = saturate(p.held, h.bytes)
}

// limited reports whether the newest object states a capacity.
func (p *capacityPool) limited() bool { return p.newest != nil && p.newest.total < math.MaxInt64 }

func (p *capacityPool) removeHold(h *hold) {
	h.pool = nil
	delete(p.holds, h)
	if p.held < math.MaxInt64 {
		p.held -= h.bytes
	} else {
		p.held = p.sum()
	}
}

// sum computes held from the holds.
func (p *capacityPool) sum() int64 {
	var sum int64
	for h := range p.holds {
		sum = saturate(sum, h.bytes)
	}
	return sum
}

// remaining is the bytes not held, never negative. The pool must have an object.
func (p *capacityPool) remaining() int64 {
	if p.newest.total == math.MaxInt64 {
		return math.MaxInt64
	}
	return p.newest.total - min(p.newest.total, p.held)
}

// fits reports whether the pool, nil for none, has enough bytes left for one volume.
func (p *capacityPool) fits(bytes int64) bool {
	return p != nil && p.newest != nil && bytes <= p.newest.largest && bytes <= p.remaining()
}

// capacityPoolOf returns the pool of the class in the segment and creates it if
// necessary. It takes over the caller's reference to the segment.
func (c *Cache) capacityPoolOf(class string, of *segment) *capacityPool {
	if p := of.Data.capacity[class]; p != nil {
		c.index.Release(of)
		return p
	}
	p := &capacityPool{class: class, segment: of, holds: map[*hold]struct{}{}}
	if of.Data.capacity == nil {
		of.Data.capacity = map[string]*capacityPool{}
	}
	of.Data.capacity[class] = p
	return p
}

// dropIfUnused removes a pool that has neither objects nor holds.
func (p *capacityPool) dropIfUnused(x *index) {
	if len(p.objects) == 0 && len(p.holds) == 0 && p.segment.Data.capacity[p.class] == p {
		delete(p.segment.Data.capacity, p.class)
		x.Release(p.segment)
	}
}

// saturate adds byte counts, none of them negative, without wrapping around.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
