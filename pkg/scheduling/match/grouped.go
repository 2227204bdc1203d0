// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// kind is what a claim can ask of a volume by name; all volumes of a group
// have the same. The class is not part of it: a Pool has one class.
type kind struct {
	block           bool
	attributesClass string
	modes           AccessModes
}

// serves reports whether volumes of the kind serve the request, if they are large
// enough and its selector likes them.
func (k kind) serves(r *Request) bool {
	return k.block == r.Block && k.attributesClass == r.AttributesClass && k.modes.Contains(r.AccessModes)
}

func kindOf(v *Volume) kind { return kind{v.Block, v.AttributesClass, v.AccessModes} }

// compareKinds sorts so that all groups which differ only in their access
// modes are neighbours.
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
	groups []group // sorted by kind; none is empty
	size   int
	room   [1]group // where a single group lives, close by
}

func (s *grouped) find(k kind) (int, bool) {
	return slices.BinarySearchFunc(s.groups, k, group.compareKind)
}

// insert adds the volume, or puts it in the place of the one with the same
// kind, size and name, which it returns.
func (s *grouped) insert(v *Volume) (replaced *Volume) {
	k := kindOf(v)
	i, found := s.find(k)
	if !found {
		if len(s.groups) == 0 {
			s.groups = s.room[:0]
		}
		s.groups = slices.Insert(s.groups, i, group{kind: k})
	}
	replaced = s.groups[i].list.insert(v)
	if replaced == nil {
		s.size++
	}
	return replaced
}

// remove takes out the volume of that kind, size and name and returns it, or
// nil.
func (s *grouped) remove(v *Volume) *Volume {
	i, found := s.find(kindOf(v))
	if !found {
		return nil
	}
	removed := s.groups[i].list.remove(v)
	if removed == nil {
		return nil
	}
	s.size--
	if s.groups[i].list.size == 0 {
		s.groups = slices.Delete(s.groups, i, i+1)
	}
	return removed
}

// alike returns the groups of the request's volume mode and
// VolumeAttributesClass. Their access modes are still to be compared.
func (s *grouped) alike(r *Request) []group {
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

// first returns the best volume for the request, its selector not asked; its
// volume is nil when there is none.
func (s *grouped) first(r *Request) entry {
	var best entry
	bestSurplus := 0
	alike := s.alike(r)
	for i := range alike {
		g := &alike[i]
		if !g.kind.modes.Contains(r.AccessModes) {
			continue
		}
		rest, _ := g.list.seek(r.Bytes)
		if len(rest) == 0 {
			continue
		}
		surplus := g.kind.modes.Surplus(r.AccessModes)
		if best.volume == nil || compareOffers(rest[0], surplus, best, bestSurplus) < 0 {
			best, bestSurplus = rest[0], surplus
		}
	}
	return best
}

// serves reports whether any volume of the set is large enough for the request
// and of the right kind.
func (s *grouped) serves(r *Request) bool {
	alike := s.alike(r)
	for i := range alike {
		if g := &alike[i]; g.list.largest >= r.Bytes && g.kind.modes.Contains(r.AccessModes) {
			return true
		}
	}
	return false
}

// compareOffers is the order of Before, read from entries and the surplus of
// their groups.
func compareOffers(a entry, aSurplus int, b entry, bSurplus int) int {
	if c := cmp.Compare(a.bytes, b.bytes); c != 0 {
		return c
	}
	if c := cmp.Compare(aSurplus, bSurplus); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

// check returns the first violated invariant.
func (s *grouped) check() error {
	size := 0
	for i := range s.groups {
		g := &s.groups[i]
		if g.list.size == 0 {
			return fmt.Errorf("group %+v is empty", g.kind)
		}
		if i > 0 && compareKinds(s.groups[i-1].kind, g.kind) >= 0 {
			return fmt.Errorf("group %+v is filed before group %+v", s.groups[i-1].kind, g.kind)
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
		size += g.list.size
	}
	if size != s.size {
		return fmt.Errorf("size is %d, but there are %d volumes", s.size, size)
	}
	return nil
}
