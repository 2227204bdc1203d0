// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Pool is the ordered index over the free volumes of one class that are reachable from
// the same nodes. The zero value is empty and ready to use.
//
// Seeking a volume takes time logarithmic in the size of the pool, and a step for each
// combination of access modes in use. A selector takes the same time if an indexed label
// selects only volumes that match; otherwise volumes that the rest of the selector
// rejects are skipped one by one.
//
// Reading is safe for concurrent use; Insert, Remove and IndexLabel need exclusive
// access.
type Pool struct {
	all     grouped
	byLabel map[string]*labelIndex
}

// labelIndex contains the volumes that have a label.
type labelIndex struct {
	anyValue grouped
	byValue  map[string]*grouped
}

// Len returns the number of volumes in the pool.
func (p *Pool) Len() int { return p.all.size() }

// Largest returns the bytes of the largest volume in the pool, 0 if it is empty.
func (p *Pool) Largest() (bytes int64) {
	for i := range p.all.groups {
		bytes = max(bytes, p.all.groups[i].list.largest)
	}
	return bytes
}

// Insert adds a free volume of the pool's class. A volume of the same name, capacity and
// kind is replaced; one of the same name that differs in these must have been removed
// before.
func (p *Pool) Insert(v *Volume) {
	replaced := p.all.insert(v)
	for key, index := range p.byLabel {
		if replaced != nil {
			index.remove(key, replaced)
		}
		index.insert(key, v)
	}
}

// Remove removes the volume, identified by its name, capacity and kind, and reports
// whether it was in the pool.
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

// IndexLabel indexes the pool's volumes by this label from now on. It is idempotent and
// takes time linear in the size of the pool.
func (p *Pool) IndexLabel(key string) {
	if p.byLabel[key] != nil {
		return
	}
	index := &labelIndex{}
	for v := range p.all.all {
		index.insert(key, v)
	}
	if p.byLabel == nil {
		p.byLabel = map[string]*labelIndex{}
	}
	p.byLabel[key] = index
}

// Cheapest appends to dst the k volumes that serve the request best, or all if there are
// fewer, in the order of Less, and returns the extended slice. The request must be for
// the pool's class.
func (p *Pool) Cheapest(r *Request, k int, dst []*Volume) []*Volume {
	index, by := p.mostSelective(r)
	switch {
	case index == nil:
		return p.all.cheapest(r, k, dst)
	case by.anyValue:
		return index.anyValue.cheapest(r, k, dst)
	}
	begin := len(dst)
	for _, value := range by.values {
		if volumes := index.byValue[value]; volumes != nil {
			split := len(dst)
			dst = Merge(r, k, volumes.cheapest(r, k, dst), begin, split)
		}
	}
	return dst
}

// Each calls yield with each volume that serves the request, in the order of Less, until it
// returns false. The pool must not change meanwhile.
func (p *Pool) Each(r *Request) iter.Seq[*Volume] {
	return func(yield func(*Volume) bool) {
		var few [4]cursor
		cursors := p.cursors(r, few[:0])
		for {
			var first *cursor
			for i := range cursors {
				if c := &cursors[i]; len(c.rest) > 0 && (first == nil || Less(r, c.rest[0].volume, first.rest[0].volume)) {
					first = c
				}
			}
			if first == nil || !yield(first.rest[0].volume) {
				return
			}
			first.rest = first.rest[1:]
			first.settle(r)
		}
	}
}

// cursors appends the beginnings of all lists with volumes that serve the request.
func (p *Pool) cursors(r *Request, dst []cursor) []cursor {
	index, by := p.mostSelective(r)
	switch {
	case index == nil:
		return p.all.cursors(r, dst)
	case by.anyValue:
		return index.anyValue.cursors(r, dst)
	}
	for _, value := range by.values {
		if volumes := index.byValue[value]; volumes != nil {
			dst = volumes.cursors(r, dst)
		}
	}
	return dst
}

// Merge merges list[begin:split] and list[split:], both in the order of Less, and drops
// all but the first k of these volumes. It changes the list.
func Merge(r *Request, k int, list []*Volume, begin, split int) []*Volume {
	if begin < split && split < len(list) && Less(r, list[split], list[split-1]) {
		slices.SortFunc(list[begin:], func(a, b *Volume) int { return compare(r, a, b) })
	}
	return list[:min(len(list), begin+k)]
}

// Serves reports whether any volume serves the request.
func (p *Pool) Serves(r *Request) bool {
	var one [1]*Volume
	return len(p.Cheapest(r, 1, one[:0])) > 0
}

// ServesAll returns the index of a request that goes unserved when the pool's volumes
// serve as many requests as possible, one volume each; -1 if all are served. known is
// false if only a Solver can decide: volumes differ in more than capacity, or requests
// have selectors. Its time is quadratic in the number of requests: call it for at most
// MaxExact.
func (p *Pool) ServesAll(requests []*Request) (unserved int, known bool) {
	if len(p.all.groups) != 1 || slices.ContainsFunc(requests, func(r *Request) bool { return r.Selector != nil }) {
		return 0, false
	}
	g := &p.all.groups[0]
	// All requests are served if and only if the largest volume serves the largest
	// request, the second largest the second largest, and so on. The largest unserved
	// request is returned.
	unserved, rank := -1, len(requests)
	for i, r := range requests {
		if !g.kind.serves(r) {
			return i, true
		}
		larger := 0
		for j, other := range requests {
			if other.Bytes > r.Bytes || (other.Bytes == r.Bytes && j < i) {
				larger++
			}
		}
		if larger < rank && (larger >= g.list.size || g.list.fromEnd(larger) < r.Bytes) {
			unserved, rank = i, larger
		}
	}
	return unserved, true
}

// mostSelective returns the label index with the fewest volumes to iterate over, and the
// requirement it serves; nil if no label of the request is indexed.
func (p *Pool) mostSelective(r *Request) (*labelIndex, *labelRequirement) {
	var bestIndex *labelIndex
	var best *labelRequirement
	fewest := 0
	for i := range r.labelRequirements {
		n := &r.labelRequirements[i]
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

func (x *labelIndex) count(n *labelRequirement) int {
	if n.anyValue {
		return x.anyValue.size()
	}
	size := 0
	for _, value := range n.values {
		if volumes := x.byValue[value]; volumes != nil {
			size += volumes.size()
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
		if volumes.size() == 0 {
			delete(x.byValue, value)
		}
	}
}

// check returns the first violated invariant: every volume is in all exactly once, and
// once in the index of each indexed label that it has.
func (p *Pool) check() error {
	if err := p.all.check(); err != nil {
		return err
	}
	names := map[string]*Volume{}
	for v := range p.all.all {
		if names[v.Name] != nil {
			return fmt.Errorf("volume %s is indexed twice", v.Name)
		}
		names[v.Name] = v
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
	if x.anyValue.size() != total || len(x.byValue) != len(want) {
		return fmt.Errorf("%d volumes with %d values are indexed, want %d with %d",
			x.anyValue.size(), len(x.byValue), total, len(want))
	}
	if err := x.anyValue.check(); err != nil {
		return err
	}
	for value, volumes := range x.byValue {
		if err := volumes.check(); err != nil {
			return fmt.Errorf("value %q: %w", value, err)
		}
		if volumes.size() != want[value] {
			return fmt.Errorf("value %q: %d volumes are indexed, want %d", value, volumes.size(), want[value])
		}
		for v := range volumes.all {
			if names[v.Name] != v || v.labels()[key] != value {
				return fmt.Errorf("value %q: volume %s does not belong there", value, v.Name)
			}
		}
	}
	return nil
}
