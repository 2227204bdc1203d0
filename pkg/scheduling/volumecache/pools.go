// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

type (
	index     = topology.Index[content, nodePools]
	segment   = topology.Segment[content, nodePools]
	nodeEntry = topology.Node[content, nodePools]
)

// content is what the volume cache keeps for a topology segment.
type content struct {
	pools      []classPool              // free volumes; one per class, few
	inline     [1]classPool             // backs pools while there is one
	inlinePool pool                     // the pool of one class
	capacity   map[string]*capacityPool // by class
	home       *nodeEntry               // the node whose nodePools list the pools; nil: none
	wide       bool                     // the pools count in class.wide
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
		if v.segment.Data.wide {
			class.wide++
		}
		for key := range class.labelKeys {
			p.IndexLabel(key)
		}
		class.pools[v.segment] = p
	}
	p.Insert(v.Volume)
	f.version++
	p.version = f.version
	v.pool = p
	if home := v.segment.Data.home; home != nil {
		home.Data.put(class, p)
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
	class, home := f.class[v.Class], v.segment.Data.home
	if p.Len() > 0 {
		if home != nil {
			home.Data.put(class, p)
		}
		return
	}
	if home != nil {
		home.Data.remove(p)
	}
	if v.segment.Data.wide {
		class.wide--
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

// nodePools are a node's own free volumes: the pools of segments that contain no
// other node, as those of local disks. They are stored with the node, so that most
// nodes can be evaluated without access to their segments.
type nodePools struct {
	list   []nodePool
	inline [1]nodePool // backs list while there is one
}

// nodePool is one pool of the node's own. uniform is valid only if alike is set.
type nodePool struct {
	class   *class
	uniform match.Uniform
	alike   bool
	pool    *pool
}

// put adds a pool, or updates it to its newest state.
func (n *nodePools) put(of *class, p *pool) {
	i := slices.IndexFunc(n.list, func(o nodePool) bool { return o.pool == p })
	if i < 0 {
		if i = len(n.list); i == 0 {
			n.list = n.inline[:0]
		}
		n.list = append(n.list, nodePool{class: of, pool: p})
	}
	n.list[i].uniform, n.list[i].alike = p.Uniform()
}

func (n *nodePools) remove(p *pool) {
	n.list = slices.DeleteFunc(n.list, func(o nodePool) bool { return o.pool == p })
}

// of returns the pool of the class, nil for none; only is false if there are several.
func (n *nodePools) of(class *class) (found *nodePool, only bool) {
	for i := range n.list {
		if n.list[i].class != class {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = &n.list[i]
	}
	return found, true
}

// rehome moves the pools of segments whose nodes have changed to the nodePools of the
// node that is now alone in the segment.
func rehome(segments []*segment) {
	for _, s := range segments {
		d, home, wide := &s.Data, s.Only(), s.Len() > 1
		if home == d.home && wide == d.wide {
			continue
		}
		for i := range d.pools {
			class, pool := d.pools[i].class, d.pools[i].pool
			if d.home != nil {
				d.home.Data.remove(pool)
			}
			if home != nil {
				home.Data.put(class, pool)
			}
			if d.wide {
				class.wide--
			}
			if wide {
				class.wide++
			}
		}
		d.home, d.wide = home, wide
	}
}
