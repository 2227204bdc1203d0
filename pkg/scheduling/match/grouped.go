// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// kind is the part of a volume that a claim compares for equality or inclusion; all
// volumes of a group have the same. The class is not part of it: a Pool has one class.
type kind struct {
	block           bool
	attributesClass string
	modes           AccessModes
}

// serves reports whether volumes of the kind serve the request, capacity and selector
// aside.
func (k kind) serves(r *Request) bool {
	return k.block == r.Block && k.attributesClass == r.AttributesClass && k.modes.Contains(r.AccessModes)
}

func kindOf(v *Volume) kind { return kind{v.Block, v.AttributesClass, v.AccessModes} }

// compareKinds orders kinds so that groups that differ only in their access modes are
// adjacent.
func compareKinds(a, b kind) int {
	if a.block != b.block {
		if b.block {
			return -1
		}
		return 1
	}
	if c := strings.Compare(a.attributesClass, b.attributesClass); c != 0 {
		return c
	}
	return cmp.Compare(a.modes, b.modes)
}

// group is all volumes of one kind, ordered by (bytes, name).
type group struct {
	kind kind
	list ordered
}

func (g group) compareKind(k kind) int { return compareKinds(g.kind, k) }

// grouped is a set of volumes, grouped by kind. The zero value is empty and
// ready to use.
type grouped struct {
	groups []group  // sorted by kind; none is empty
	inline [1]group // backs groups while there is one: most pools have one kind
}

// size is the number of volumes.
func (s *grouped) size() int {
	size := 0
	for i := range s.groups {
		size += s.groups[i].list.size
	}
	return size
}

// all calls yield with each volume until it returns false.
func (s *grouped) all(yield func(v *Volume) bool) {
	for i := range s.groups {
		for _, chunk := range s.groups[i].list.chunks {
			for _, e := range chunk {
				if !yield(e.volume) {
					return
				}
			}
		}
	}
}

func (s *grouped) find(k kind) (int, bool) {
	return slices.BinarySearchFunc(s.groups, k, group.compareKind)
}

// insert adds the volume, replacing and returning one with the same kind, size and name.
func (s *grouped) insert(v *Volume) (replaced *Volume) {
	k := kindOf(v)
	i, found := s.find(k)
	if !found {
		if len(s.groups) == 0 {
			s.groups = s.inline[:0]
		}
		s.groups = slices.Insert(s.groups, i, group{kind: k})
	}
	return s.groups[i].list.insert(v)
}

// remove removes and returns the volume of that kind, size and name, nil if there is
// none.
func (s *grouped) remove(v *Volume) *Volume {
	i, found := s.find(kindOf(v))
	if !found {
		return nil
	}
	removed := s.groups[i].list.remove(v)
	if s.groups[i].list.size == 0 {
		s.groups = slices.Delete(s.groups, i, i+1)
	}
	return removed
}

// compatible returns the groups of the request's volume mode and VolumeAttributesClass.
// Their access modes are not compared.
func (s *grouped) compatible(r *Request) []group {
	first := 0
	if len(s.groups) > 1 {
		first, _ = s.find(kind{block: r.Block, attributesClass: r.AttributesClass})
	}
	last := first
	for last < len(s.groups) && s.groups[last].kind.block == r.Block &&
		s.groups[last].kind.attributesClass == r.AttributesClass {
		last++
	}
	return s.groups[first:last]
}

// cheapest appends the k volumes that serve the request best, in the order of Less.
func (s *grouped) cheapest(r *Request, k int, dst []*Volume) []*Volume {
	compatible, begin := s.compatible(r), len(dst)
	for i := range compatible {
		if g := &compatible[i]; g.kind.modes.Contains(r.AccessModes) {
			split := len(dst)
			dst = Merge(r, k, g.list.cheapest(r, k, dst), begin, split)
		}
	}
	return dst
}

// cursors appends the beginnings of the lists with volumes that serve the request.
func (s *grouped) cursors(r *Request, dst []cursor) []cursor {
	compatible := s.compatible(r)
	for i := range compatible {
		g := &compatible[i]
		if !g.kind.modes.Contains(r.AccessModes) {
			continue
		}
		c := cursor{list: &g.list}
		c.rest, c.chunk = g.list.seek(r.Bytes)
		c.settle(r)
		dst = append(dst, c)
	}
	return dst
}

// check returns the first violated invariant.
func (s *grouped) check() error {
	for i := range s.groups {
		g := &s.groups[i]
		if g.list.size == 0 {
			return fmt.Errorf("group %+v is empty", g.kind)
		}
		if i > 0 && compareKinds(s.groups[i-1].kind, g.kind) >= 0 {
			return fmt.Errorf("group %+v is sorted before group %+v", s.groups[i-1].kind, g.kind)
		}
		if err := g.list.check(); err != nil {
			return fmt.Errorf("group %+v: %w", g.kind, err)
		}
		for _, chunk := range g.list.chunks {
			for _, e := range chunk {
				if kindOf(e.volume) != g.kind {
					return fmt.Errorf("volume %s is in group %+v, but is %+v", e.volume.Name, g.kind, kindOf(e.volume))
				}
			}
		}
	}
	return nil
}
