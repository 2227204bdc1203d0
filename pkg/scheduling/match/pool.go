// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"maps"
	"slices"
)

// Pool is the ordered index over the free volumes of one class that are
// reachable from the same nodes. The zero value is empty and ready to use.
//
// Seeking a volume takes time logarithmic in the size of the pool, and a step
// for each combination of access modes in use. A selector is served in the
// same time when an indexed label picks volumes that all match; otherwise
// volumes that the rest of the selector refuses are stepped over one by one.
//
// Reading is safe for concurrent use; Insert, Remove and IndexLabel exclude
// everything else.
type Pool struct {
	all     grouped
	byLabel map[string]*labelIndex
}

// labelIndex holds the volumes that have a label.
type labelIndex struct {
	anyValue grouped
	byValue  map[string]*grouped
}

// Len returns the number of volumes in the pool.
func (p *Pool) Len() int { return p.all.size }

// Insert adds a free volume of the pool's class. A volume of the same name,
// capacity and kind is replaced; one of the same name that differs in these
// must have been removed before.
func (p *Pool) Insert(v *Volume) {
	replaced := p.all.insert(v)
	for key, index := range p.byLabel {
		if replaced != nil {
			index.remove(key, replaced)
		}
		index.insert(key, v)
	}
}

// Remove takes the volume out, known by its name, capacity and kind, and
// reports whether it was there.
func (p *Pool) Remove(v *Volume) bool {
	removed := p.all.remove(v)
	if removed == nil {
		return false
	}
	for key, index := range p.byLabel {
		index.remove(key, removed)
	}
	return true
}

// IndexLabel indexes the pool's volumes by this label from now on. Doing it
// again changes nothing. It takes time linear in the size of the pool.
func (p *Pool) IndexLabel(key string) {
	if p.byLabel[key] != nil {
		return
	}
	index := &labelIndex{}
	for i := range p.all.groups {
		for _, chunk := range p.all.groups[i].list.chunks {
			for _, e := range chunk {
				index.insert(key, e.volume)
			}
		}
	}
	if p.byLabel == nil {
		p.byLabel = map[string]*labelIndex{}
	}
	p.byLabel[key] = index
}

// First returns the volume that serves the request best, in the order of
// Before, and its capacity in bytes, which is known before the volume is looked
// at; nil when there is none. The request must be for the pool's class.
func (p *Pool) First(r *Request) (v *Volume, bytes int64) {
	if r.Selector == nil {
		best := p.all.first(r)
		return best.volume, best.bytes
	}
	var room [onStack]cursor
	m := p.open(r, room[:0])
	for len(m) > 0 {
		if v, m = m.next(); r.selects(v) {
			return v, v.Bytes
		}
	}
	return nil, 0
}

// Serves reports whether any volume serves the request, which is found out with
// less work than First when the request has no selector.
func (p *Pool) Serves(r *Request) bool {
	if r.Selector == nil {
		return p.all.serves(r)
	}
	v, _ := p.First(r)
	return v != nil
}

// Cheapest appends to dst the k volumes that serve the request best, or all if
// there are fewer, in the order of Before, and returns the extended slice. The
// request must be for the pool's class.
func (p *Pool) Cheapest(r *Request, k int, dst []*Volume) []*Volume {
	var room [onStack]cursor
	m := p.open(r, room[:0])
	for k > 0 && len(m) > 0 {
		var v *Volume
		if v, m = m.next(); r.selects(v) {
			dst = append(dst, v)
			k--
		}
	}
	return dst
}

// open begins a walk over the volumes that may serve the request, of which
// only the selector is still to be asked.
func (p *Pool) open(r *Request, m merge) merge {
	index, by := p.narrowest(r)
	switch {
	case index == nil:
		m = m.add(&p.all, r)
	case by.anyValue:
		m = m.add(&index.anyValue, r)
	default:
		for _, value := range by.values {
			if volumes := index.byValue[value]; volumes != nil {
				m = m.add(volumes, r)
			}
		}
	}
	m.start()
	return m
}

// narrowest returns the label index that leaves the fewest volumes to walk,
// and the requirement it serves; nil when none of the request's is indexed.
func (p *Pool) narrowest(r *Request) (*labelIndex, *narrowing) {
	var bestIndex *labelIndex
	var best *narrowing
	fewest := 0
	for i := range r.narrowings {
		n := &r.narrowings[i]
		index := p.byLabel[n.key]
		if index == nil {
			continue
		}
		if size := index.count(n); bestIndex == nil || size < fewest {
			bestIndex, best, fewest = index, n, size
		}
	}
	return bestIndex, best
}

func (x *labelIndex) count(n *narrowing) int {
	if n.anyValue {
		return x.anyValue.size
	}
	size := 0
	for _, value := range n.values {
		if volumes := x.byValue[value]; volumes != nil {
			size += volumes.size
		}
	}
	return size
}

func (x *labelIndex) insert(key string, v *Volume) {
	value, ok := v.labels()[key]
	if !ok {
		return
	}
	volumes := x.byValue[value]
	if volumes == nil {
		volumes = &grouped{}
		if x.byValue == nil {
			x.byValue = map[string]*grouped{}
		}
		x.byValue[value] = volumes
	}
	volumes.insert(v)
	x.anyValue.insert(v)
}

func (x *labelIndex) remove(key string, v *Volume) {
	value, ok := v.labels()[key]
	if !ok {
		return
	}
	x.anyValue.remove(v)
	if volumes := x.byValue[value]; volumes != nil {
		volumes.remove(v)
		if volumes.size == 0 {
			delete(x.byValue, value)
		}
	}
}

// check returns the first violated invariant: every volume is filed exactly
// once under all, and once under each indexed label that it has.
func (p *Pool) check() error {
	if err := p.all.check(); err != nil {
		return err
	}
	names := map[string]*Volume{}
	for i := range p.all.groups {
		g := &p.all.groups[i]
		for _, chunk := range g.list.chunks {
			for _, e := range chunk {
				if names[e.volume.Name] != nil {
					return fmt.Errorf("volume %s is filed twice", e.volume.Name)
				}
				names[e.volume.Name] = e.volume
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.byLabel)) {
		if err := p.byLabel[key].check(key, names); err != nil {
			return fmt.Errorf("index of label %s: %w", key, err)
		}
	}
	return nil
}

func (x *labelIndex) check(key string, names map[string]*Volume) error {
	want := map[string]int{}
	total := 0
	for _, v := range names {
		if value, ok := v.labels()[key]; ok {
			want[value]++
			total++
		}
	}
	if x.anyValue.size != total || len(x.byValue) != len(want) {
		return fmt.Errorf("%d volumes with %d values are filed, want %d with %d",
			x.anyValue.size, len(x.byValue), total, len(want))
	}
	if err := x.anyValue.check(); err != nil {
		return err
	}
	for value, volumes := range x.byValue {
		if err := volumes.check(); err != nil {
			return fmt.Errorf("value %q: %w", value, err)
		}
		if volumes.size != want[value] {
			return fmt.Errorf("value %q: %d volumes are filed, want %d", value, volumes.size, want[value])
		}
		for i := range volumes.groups {
			g := &volumes.groups[i]
			for _, chunk := range g.list.chunks {
				for _, e := range chunk {
					if names[e.volume.Name] != e.volume || e.volume.labels()[key] != value {
						return fmt.Errorf("value %q: volume %s does not belong there", value, e.volume.Name)
					}
				}
			}
		}
	}
	return nil
}
