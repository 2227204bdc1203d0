// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// shelves are a node's own free volumes: the pools of segments in which no other
// node lies, as those of local disks. They are kept with the node, so that most
// nodes are answered for out of one place in memory, without their segments.
type shelves struct {
	list []shelf
	room [1]shelf // where the list begins, close by
}

// shelf is a pool of the node's own. uniform is good only while alike is set.
type shelf struct {
	class   *class
	uniform match.Uniform
	alike   bool
	pool    *pool
}

// put keeps a pool, in its newest state.
func (s *shelves) put(of *class, p *pool) {
	i := slices.IndexFunc(s.list, func(o shelf) bool { return o.pool == p })
	if i < 0 {
		if i = len(s.list); i == 0 {
			s.list = s.room[:0]
		}
		s.list = append(s.list, shelf{class: of, pool: p})
	}
	s.list[i].uniform, s.list[i].alike = p.Uniform()
}

// remove forgets a pool.
func (s *shelves) remove(p *pool) {
	s.list = slices.DeleteFunc(s.list, func(o shelf) bool { return o.pool == p })
}

// of returns the shelf of the class, nil when there is none; only is false when
// there are several.
func (s *shelves) of(class *class) (found *shelf, only bool) {
	for i := range s.list {
		if s.list[i].class != class {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = &s.list[i]
	}
	return found, true
}

// rehome puts the pools of segments whose nodes have changed on the shelves where
// they belong.
func (c *Cache) rehome(segments []*segment) {
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

// shelfOf returns what decides for a node when that is its own shelf alone: the
// pod waits for existing volumes of one class, none of whose claims may be settled
// already. A nil shelf has no volumes. known is false when more has to be asked.
func (c *Cache) shelfOf(d *Demand, at *nodeEntry) (on *shelf, known bool) {
	if at == nil || len(d.groups) != 1 || len(d.bound) > 0 || d.whatIf != nil || d.memo != nil || d.withheld.on(at.Segments) {
		return nil, false
	}
	g := &d.groups[0]
	if g.provisions || g.class.wide > 0 || len(g.pending) > match.MaxExact {
		return nil, false
	}
	for i := range g.pending {
		if p := &g.pending[i]; p.selected != "" || c.holds[p.key] != nil || len(c.byClaim[p.key]) > 0 {
			return nil, false
		}
	}
	on, only := at.Data.of(g.class)
	return on, only && (on == nil || on.alike)
}

// fitsShelf answers for a node whose own shelf decides.
func (s *solution) fitsShelf(d *Demand, on *shelf) match.Reason {
	g, unserved := &d.groups[0], 0
	switch {
	case on == nil:
	case len(g.pending) > 1:
		s.requests = s.requests[:0]
		for i := range g.pending {
			s.requests = append(s.requests, g.pending[i].Request)
		}
		unserved = on.uniform.ServesAll(s.requests)
	case on.uniform.Serves(g.pending[0].Request):
		unserved = -1
	}
	if unserved < 0 {
		return match.Reason{}
	}
	return s.unmatched(&g.pending[unserved], g, false)
}
