// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/topology"
)

// capacity is an indexed CSIStorageCapacity.
type capacity struct {
	object   *storagev1.CSIStorageCapacity
	pool     *capacityPool
	sequence uint64 // at which it was observed
	total    int64  // bytes; math.MaxInt64: not stated
	largest  int64  // bytes of the largest volume; math.MaxInt64: not stated
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
