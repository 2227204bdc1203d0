// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

type (
	index   = topology.Index[content]
	segment = topology.Segment[content]
)

// content is what the volume cache keeps for a topology segment.
type content struct {
	pools      []classPool              // free volumes; one per class, few
	inline     [1]classPool             // backs pools while there is one
	inlinePool pool                     // the pool of one class
	capacity   map[string]*capacityPool // by class
}

// classPool is a segment's pool of one class. Searching a list of these is faster
// than a map: a node's storage is of few classes.
type classPool struct {
	class *class
	pool  *pool
}

// pool is the free volumes of one class in one segment. version is unique to
// its content, among all pools.
type pool struct {
	match.Pool
	version uint64
}

// freePools are the volumes that no claim has and nothing reserves, by class and
// segment. The lock of the Cache guards them.
type freePools struct {
	class   map[string]*class
	version uint64 // of the last change of any pool
	byClass bool   // see Config.ByClass
}

// offer adds a volume to its pool if it is free and not reserved.
func (f *freePools) offer(v *volume) {
	if v.pool != nil || v.hold != nil || !v.Free() {
		return
	}
	class := f.ensureClass(v.Class)
	p := class.pools[v.segment]
	if p == nil {
		p = v.segment.Data.add(class)
		for key := range class.labelKeys {
			p.IndexLabel(key)
		}
		class.pools[v.segment] = p
	}
	p.Insert(v.Volume)
	f.version++
	p.version = f.version
	v.pool = p
	if f.byClass {
		class.all.Insert(v.Volume)
	}
}

// ensureClass returns the entry of the class and creates it if necessary.
func (f *freePools) ensureClass(name string) *class {
	entry := f.class[name]
	if entry == nil {
		entry = &class{name: name, labelKeys: map[string]struct{}{}, pools: map[*segment]*pool{}}
		f.class[name] = entry
	}
	return entry
}

// add makes an empty pool for the class, which has none in the segment.
func (d *content) add(class *class) *pool {
	if len(d.pools) == 0 {
		d.pools = d.inline[:0]
	}
	p := &d.inlinePool
	if slices.ContainsFunc(d.pools, func(o classPool) bool { return o.pool == p }) {
		p = &pool{}
	}
	d.pools = append(d.pools, classPool{class, p})
	return p
}

// withdraw removes a volume from its pool.
func (f *freePools) withdraw(v *volume) {
	p := v.pool
	if p == nil {
		return
	}
	p.Remove(v.Volume)
	f.version++
	p.version = f.version
	v.pool = nil
	class := f.class[v.Class]
	if f.byClass {
		class.all.Remove(v.Volume)
	}
	if p.Len() > 0 {
		return
	}
	v.segment.Data.drop(p)
	delete(class.pools, v.segment)
	f.dropUnusedClass(class)
}

func (d *content) drop(p *pool) {
	d.pools = slices.DeleteFunc(d.pools, func(o classPool) bool { return o.pool == p })
	if p == &d.inlinePool {
		d.inlinePool = pool{}
	}
}

// dropUnusedClass removes the entry if it has neither an object nor pools.
func (f *freePools) dropUnusedClass(entry *class) {
	if entry.object == nil && len(entry.pools) == 0 {
		delete(f.class, entry.name)
	}
}

// FreeStorage is the storage of a class that no claim has and nothing reserves, in bytes.
type FreeStorage struct {
	// Volumes is the number of existing volumes. Bytes is the sum of their capacities, Largest the
	// capacity of the largest.
	Volumes        int
	Bytes, Largest int64
	// Provisions: the class has a provisioner. Limited: its driver reports capacity, of which
	// Capacity is what is not reserved, in all segments, and LargestCapacity what the largest
	// volume can have. math.MaxInt64: not stated.
	Provisions, Limited       bool
	Capacity, LargestCapacity int64
}

// FreeOn returns the free storage of a class that any of the nodes can use; storage that several of
// them can use counts once. It reads each volume. In-tree volumes count where their own affinity
// admits, not that of their translation.
func (c *Cache) FreeOn(class string, nodes []*v1.Node) FreeStorage {
	object := c.Class(class)
	free := FreeStorage{Provisions: object != nil && provisions(object), Limited: c.tracksCapacity(object)}
	c.mu.RLock()
	defer c.mu.RUnlock()
	segments := sets.New[*segment]()
	for _, node := range nodes {
		segments.Insert(c.locationOf(node).segments...)
	}
	for _, v := range c.volume {
		if v.pool != nil && v.Class == class && segments.Has(v.segment) {
			free.Volumes++
			free.Bytes = saturate(free.Bytes, v.Bytes)
			free.Largest = max(free.Largest, v.Bytes)
		}
	}
	if !free.Limited {
		return free
	}
	for s := range segments {
		if p := s.Data.capacity[class]; p != nil && p.newest != nil {
			free.Capacity = saturate(free.Capacity, p.remaining())
			free.LargestCapacity = max(free.LargestCapacity, min(p.newest.largest, p.remaining()))
		}
	}
	return free
}
