// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"
	"sync"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// matchOpen assigns existing volumes to the open claims; the others are provisioned
// where canProvision.
func (c *Cache) matchOpen(s *solution, d *Demand, g *group, at location, e effort, canProvision bool) match.Reason {
	if e == feasible && !canProvision && len(s.open) <= match.MaxExact && d.evictions == nil && !d.withheld.on(at.segments) {
		if unserved, known := s.servesAll(g, at); known && unserved < 0 {
			return match.Reason{}
		} else if known {
			return s.unmatched(s.open[unserved], g, canProvision)
		}
	}
	chosen := c.assign(s, d, g, at, e)
	for i, p := range s.open {
		if chosen[i] != nil {
			s.bindings = append(s.bindings, binding{p, chosen[i]})
		} else if reason := s.unmatched(p, g, canProvision); reason.Code != 0 {
			return reason
		}
	}
	return match.Reason{}
}

// unmatched provisions for a claim that no existing volume serves, or returns why it
// cannot.
func (s *solution) unmatched(p *pending, g *group, canProvision bool) match.Reason {
	switch {
	case canProvision:
		s.provisions = append(s.provisions, provision{of: p, group: g})
		return match.Reason{}
	case g.provisions:
		return match.Reason{Code: match.TopologyNotAllowed, Claim: p.Claim.Name}
	}
	return match.Reason{Code: match.NoVolume, Claim: p.Claim.Name}
}

// servesAll is Pool.ServesAll for the open claims and the node's only pool of the class,
// which most nodes with local volumes have: it reads no volume.
func (s *solution) servesAll(g *group, at location) (unserved int, known bool) {
	var only *pool
	for _, segment := range at.segments {
		pool := poolOf(segment, g.class)
		if pool != nil && only != nil {
			return 0, false
		}
		if pool != nil {
			only = pool
		}
	}
	if only == nil {
		return 0, true
	}
	s.requests = s.requests[:0]
	for _, p := range s.open {
		s.requests = append(s.requests, p.Request)
	}
	return only.ServesAll(s.requests)
}

// any reports whether some free volume of the node serves the claim.
func (c *Cache) any(d *Demand, p *pending, g *group, at location) bool {
	for _, segment := range at.segments {
		pool := poolOf(segment, g.class)
		switch {
		case pool == nil:
		case p.Selector != nil && segment.Len() > 1:
			if len(d.memo.cheapest(pool, p, g.width())) > 0 {
				return true
			}
		case pool.Serves(p.Request):
			return true
		}
	}
	return false
}

// width is how many volumes per claim can matter to the group at most.
func (g *group) width() int { return match.Width(len(g.pending)) }

// assign matches the open claims with volumes of the node.
func (c *Cache) assign(s *solution, d *Demand, g *group, at location, e effort) []*match.Volume {
	k := match.Width(len(s.open))
	s.requests, s.flat = s.requests[:0], s.flat[:0]
	for _, p := range s.open {
		s.requests = append(s.requests, p.Request)
	}
	// Candidates are slices of flat, taken once flat no longer grows.
	s.ends = s.ends[:0]
	for _, p := range s.open {
		s.flat = c.candidates(s.flat, d, p, g, at, k)
		s.ends = append(s.ends, len(s.flat))
	}
	s.candidates = s.candidates[:0]
	begin := 0
	for _, end := range s.ends {
		s.candidates = append(s.candidates, s.flat[begin:end:end])
		begin = end
	}
	if e == exact {
		return s.solver.Assign(s.requests, s.candidates)
	}
	return s.solver.Serve(s.requests, s.candidates)
}

// candidates appends the k best volumes of the node for the claim, in order.
func (c *Cache) candidates(dst []*match.Volume, d *Demand, p *pending, g *group, at location, k int) []*match.Volume {
	begin := len(dst)
	for _, segment := range at.segments {
		pool := poolOf(segment, g.class)
		if pool == nil {
			continue
		}
		split, withheld := len(dst), d.withheld.in(segment)
		if p.Selector != nil && segment.Len() > 1 {
			dst = append(dst, d.memo.cheapest(pool, p, g.width()+withheld)...)
		} else {
			dst = pool.Cheapest(p.Request, k+withheld, dst)
		}
		if withheld > 0 {
			dst = dst[:split+len(slices.DeleteFunc(dst[split:], func(v *match.Volume) bool { return d.withheld.has(v.Name) }))]
		}
		dst = match.Merge(p.Request, k, dst, begin, split)
	}
	for i := range d.evictions[at.node] {
		if freed := d.evictions[at.node][i].volume; freed != nil && p.Matches(freed) && !d.withheld.has(freed.Name) {
			dst = match.Merge(p.Request, k, append(dst, freed), begin, len(dst))
		}
	}
	return dst
}

// poolOf returns the segment's pool of the class, nil if it has no free volume.
func poolOf(s *segment, of *class) *pool {
	for i := range s.Data.pools {
		if entry := &s.Data.pools[i]; entry.class == of {
			return entry.pool
		}
	}
	return nil
}

// withheld is what nominated pods need of the storage reachable from their nodes. A nil
// withheld is empty.
type withheld struct {
	volumes map[string]struct{} // by name, including those that are being reclaimed
	// free is the number of volumes that are free, by segment.
	free  map[*segment]int
	bytes map[CapacityPool]int64
}

// on reports whether a free volume of one of the segments is withheld.
func (w *withheld) on(segments []*segment) bool {
	return w != nil && slices.ContainsFunc(segments, func(s *segment) bool { return w.free[s] > 0 })
}

// in is the number of free volumes of the segment that are withheld.
func (w *withheld) in(s *segment) int {
	if w == nil {
		return 0
	}
	return w.free[s]
}

// has reports whether the volume is withheld.
func (w *withheld) has(name string) bool {
	if w == nil {
		return false
	}
	_, ok := w.volumes[name]
	return ok
}

// memo caches, for one scheduling cycle, the volumes that a claim with a label selector
// matches in a pool that several nodes share: a selector that the label
// index cannot serve is not evaluated over a whole zone for each node.
type memo struct {
	mu    sync.Mutex
	found map[memoKey]memoEntry
}

type memoKey struct {
	claim int // pending.index
	pool  *pool
}

type memoEntry struct {
	version uint64
	volumes []*match.Volume
}

// cheapest returns the k best volumes of the pool for the request; read only.
// k is the same at every call for a claim and pool.
func (m *memo) cheapest(p *pool, of *pending, k int) []*match.Volume {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := memoKey{of.index, p}
	entry, ok := m.found[key]
	if !ok || entry.version != p.version {
		entry = memoEntry{p.version, p.Cheapest(of.Request, k, nil)}
		if m.found == nil {
			m.found = map[memoKey]memoEntry{}
		}
		m.found[key] = entry
	}
	return entry.volumes
}
