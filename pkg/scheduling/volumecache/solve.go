// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// effort says how much of an answer a caller needs.
type effort int

const (
	// feasible: whether it fits; what is chosen need not be complete.
	feasible effort = iota
	// counted: how many bytes would be given; ties may fall any way.
	counted
	// exact: the assignment that Reserve carries out.
	exact
)

// solution is the scratch memory and the result of one question about one
// node. It is reused; nothing in it outlives the question.
type solution struct {
	solver     match.Solver
	open       []*pending // of the group in hand, to be matched
	requests   []*match.Request
	candidates [][]*match.Volume
	flat       []*match.Volume
	ends       []int // of each claim's candidates in flat
	shares     []share
	rows       [][1 << maxTogether]uint8 // of allotTogether
	allotted   []*provision              // of the group in hand, by size
	// before is the node that was asked about last; it outlives the question.
	before *nodeEntry

	bindings   []binding
	provisions []provision
}

// binding is a claim that an existing volume of so many bytes serves.
type binding struct {
	of     *pending
	volume *match.Volume
	bytes  int64
}

// provision is a claim to provision for.
type provision struct {
	of    *pending
	group *group
	room  *room // nil: not bounded
	// held: its bytes are held already, by another pod that uses the claim or
	// since the node was selected.
	held bool
}

func (s *solution) reset() {
	clear(s.open)
	clear(s.requests)
	clear(s.flat)
	clear(s.shares)
	clear(s.allotted)
	clear(s.bindings)
	clear(s.provisions)
	s.open, s.requests, s.flat = s.open[:0], s.requests[:0], s.flat[:0]
	s.shares, s.bindings, s.provisions = s.shares[:0], s.bindings[:0], s.provisions[:0]
}

// putScratch returns scratch memory whose result is no longer needed.
func (c *Cache) putScratch(s *solution) {
	s.reset()
	c.scratch.Put(s)
}

// Fits tells why the pod's claims do not fit the node, as handed in; the zero
// Reason says that they do. It decides only: nothing is stored. It does not
// allocate when the node is the one indexed.
func (c *Cache) Fits(d *Demand, node *v1.Node) match.Reason {
	s := c.scratch.Get().(*solution)
	c.mu.RLock()
	reason := c.fits(s, d, node)
	if reason.Code != match.Fits {
		c.noteRefused(d)
	}
	c.mu.RUnlock()
	c.putScratch(s)
	return reason
}

func (c *Cache) fits(s *solution, d *Demand, node *v1.Node) match.Reason {
	at := c.entryOf(s, node)
	if on, known := c.shelfOf(d, at); known {
		return s.fitsShelf(d, on)
	}
	return c.solve(s, d, c.spotAt(at, node), feasible)
}

// entryOf finds the entry of a node that is asked about among many others; nil
// when it is not the node as indexed.
func (c *Cache) entryOf(s *solution, node *v1.Node) *nodeEntry {
	at := c.index.NodeAfter(s.before, node)
	if at != nil {
		s.before = at
	}
	return at
}

// solve answers for one node. With effort above feasible, s holds what would
// be bound and provisioned. The caller holds the lock.
func (c *Cache) solve(s *solution, d *Demand, at spot, e effort) match.Reason {
	for _, claim := range d.bound {
		v := c.volume[claim.Spec.VolumeName]
		if v == nil {
			return match.Reason{Code: match.VolumeMissing, Claim: claim.Name, Volume: claim.Spec.VolumeName}
		}
		if reason := v.lostTo(claim); reason.Code != match.Fits {
			return reason
		}
		if !at.in(c.segmentOn(v, at.node)) {
			return match.Reason{Code: match.NodeConflict, Claim: claim.Name, Volume: v.Name}
		}
	}
	for i := range d.groups {
		if reason := c.solveGroup(s, d, &d.groups[i], at, e); reason.Code != 0 {
			return reason
		}
	}
	return match.Reason{}
}

// solveGroup serves the pod's claims of one class: first those whose fate is
// settled, then existing volumes, then provisioning.
func (c *Cache) solveGroup(s *solution, d *Demand, g *group, at spot, e effort) match.Reason {
	s.open = s.open[:0]
	first := len(s.provisions)
	for i := range g.pending {
		if reason := c.settled(s, g, &g.pending[i], at); reason.Code != 0 {
			return reason
		}
	}
	makes := g.provisions && (g.class.allowed == nil || at.in(g.class.allowed))
	if e == feasible && makes && !g.tracked {
		return match.Reason{} // whatever cannot be matched is provisioned
	}
	if len(s.open) > 0 {
		if reason := c.matchOpen(s, d, g, at, e, makes); reason.Code != 0 {
			return reason
		}
	}
	if len(s.provisions) == first || !g.tracked {
		return match.Reason{}
	}
	return c.allotAll(s, d, g, at, s.provisions[first:])
}

// settled handles claims that have no choice any more: reserved by another pod
// that uses the same claim, named by a volume (rule 1), or with a node
// selected. All others become open.
func (c *Cache) settled(s *solution, g *group, p *pending, at spot) match.Reason {
	if h := c.holds[p.key]; h != nil && h.uid == p.Claim.UID && h.stands(p) {
		return h.settles(c, s, g, p, at)
	}
	mine, best := false, (*volume)(nil)
	for _, v := range c.byClaim[p.key] {
		if !match.RefersTo(v.PV.Spec.ClaimRef, p.Claim) {
			continue
		}
		mine = true
		if p.FitsSpec(v.Volume) && at.in(c.segmentOn(v, at.node)) && (best == nil || match.Less(p.Request, v.Volume, best.Volume)) {
			best = v
		}
	}
	switch {
	case best != nil:
		s.bindings = append(s.bindings, binding{p, best.Volume, best.Bytes})
	case mine:
		return c.mismatch(p)
	case p.selected == "":
		s.open = append(s.open, p)
	case p.selected != at.node:
		return match.Reason{Code: match.NodeNotSelected, Claim: p.Claim.Name}
	default:
		s.provisions = append(s.provisions, provision{of: p, group: g})
	}
	return match.Reason{}
}

// matchOpen gives existing volumes to the open claims and leaves the rest to
// provisioning, if there is any.
func (c *Cache) matchOpen(s *solution, d *Demand, g *group, at spot, e effort, makes bool) match.Reason {
	switch {
	case d.whatIf != nil, d.withheld.on(at.segments):
	case len(s.open) == 1:
		return c.matchOne(s, d, g, at, e, makes)
	case e == feasible && !makes && len(s.open) <= match.MaxExact:
		if unserved, known := s.servesAll(g, at); known && unserved < 0 {
			return match.Reason{}
		} else if known {
			return s.unmatched(s.open[unserved], g, makes)
		}
	}
	chosen := c.assign(s, d, g, at, e)
	for i, p := range s.open {
		if chosen[i] != nil {
			s.bindings = append(s.bindings, binding{p, chosen[i], chosen[i].Bytes})
		} else if reason := s.unmatched(p, g, makes); reason.Code != 0 {
			return reason
		}
	}
	return match.Reason{}
}

// matchOne is matchOpen for a single claim: nothing competes for its best
// volume.
func (c *Cache) matchOne(s *solution, d *Demand, g *group, at spot, e effort, makes bool) match.Reason {
	p := s.open[0]
	if e == feasible {
		if c.any(d, p, g, at) {
			return match.Reason{}
		}
	} else if v, bytes := c.best(d, p, g, at); v != nil {
		s.bindings = append(s.bindings, binding{p, v, bytes})
		return match.Reason{}
	}
	return s.unmatched(p, g, makes)
}

// unmatched leaves a claim to provisioning, if there is any.
func (s *solution) unmatched(p *pending, g *group, makes bool) match.Reason {
	switch {
	case makes:
		s.provisions = append(s.provisions, provision{of: p, group: g})
		return match.Reason{}
	case g.provisions:
		return match.Reason{Code: match.TopologyNotAllowed, Claim: p.Claim.Name}
	}
	return match.Reason{Code: match.NoVolume, Claim: p.Claim.Name}
}

// servesAll tells without an assignment whether the free volumes on the spot
// serve all open claims: which claim they do not, by its place, -1 when all are
// served. known is false when only an assignment can tell.
func (s *solution) servesAll(g *group, at spot) (unserved int, known bool) {
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
	uniform, alike := only.Uniform()
	s.requests = s.requests[:0]
	for _, p := range s.open {
		if p.Selector != nil || !alike {
			return 0, false
		}
		s.requests = append(s.requests, p.Request)
	}
	return uniform.ServesAll(s.requests), true
}

// any tells whether some free volume on the spot serves the claim.
func (c *Cache) any(d *Demand, p *pending, g *group, at spot) bool {
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

// best returns the free volume on the spot that serves the claim best, and its
// bytes; nil when there is none.
func (c *Cache) best(d *Demand, p *pending, g *group, at spot) (best *match.Volume, bytes int64) {
	for _, segment := range at.segments {
		pool := poolOf(segment, g.class)
		if pool == nil {
			continue
		}
		v, size := (*match.Volume)(nil), int64(0)
		if p.Selector == nil || segment.Len() == 1 {
			v, size = pool.First(p.Request)
		} else if found := d.memo.cheapest(pool, p, g.width()); len(found) > 0 {
			v, size = found[0], found[0].Bytes
		}
		if v != nil && (best == nil || match.Less(p.Request, v, best)) {
			best, bytes = v, size
		}
	}
	return best, bytes
}

// width is how many volumes per claim can matter to the group at most.
func (g *group) width() int { return match.Width(len(g.pending)) }

// assign matches the open claims with volumes on the spot.
func (c *Cache) assign(s *solution, d *Demand, g *group, at spot, e effort) []*match.Volume {
	k := match.Width(len(s.open))
	s.requests, s.flat = s.requests[:0], s.flat[:0]
	for _, p := range s.open {
		s.requests = append(s.requests, p.Request)
	}
	// Candidates are cut out of flat once it no longer moves.
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

// candidates appends the k best volumes on the spot for the claim, in order.
func (c *Cache) candidates(dst []*match.Volume, d *Demand, p *pending, g *group, at spot, k int) []*match.Volume {
	begin := len(dst)
	for _, segment := range at.segments {
		pool := poolOf(segment, g.class)
		if pool == nil {
			continue
		}
		merge, withheld := len(dst), d.withheld.in(segment)
		if p.Selector != nil && segment.Len() > 1 {
			dst = append(dst, d.memo.cheapest(pool, p, g.width()+withheld)...)
		} else {
			dst = pool.Cheapest(p.Request, k+withheld, dst)
		}
		if withheld > 0 {
			dst = dst[:merge+len(slices.DeleteFunc(dst[merge:], func(v *match.Volume) bool { return d.withheld.has(v.Name) }))]
		}
		mergeTail(p.Request, dst[begin:], merge-begin)
		dst = dst[:min(len(dst), begin+k)]
	}
	for i := range d.whatIf[at.node] {
		if freed := d.whatIf[at.node][i].volume; freed != nil && p.Matches(freed) && !d.withheld.has(freed.Name) {
			dst = append(dst, freed)
			mergeTail(p.Request, dst[begin:], len(dst)-begin-1)
			dst = dst[:min(len(dst), begin+k)]
		}
	}
	return dst
}

// mergeTail sorts list in place, given that list[:split] and list[split:] are
// sorted. Both are short.
func mergeTail(r *match.Request, list []*match.Volume, split int) {
	for i := split; i < len(list); i++ {
		for j := i; j > 0 && match.Less(r, list[j], list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

// allotAll finds capacity for all provisions of a group together: the largest first,
// each where the most is left. Where that fails it tries all ways, if they are few.
func (c *Cache) allotAll(s *solution, d *Demand, g *group, at spot, provisions []provision) match.Reason {
	s.allotted = s.allotted[:0]
	for i := range provisions {
		if p := &provisions[i]; !p.held && p.of.Bytes > 0 {
			s.allotted = append(s.allotted, p)
		}
	}
	if len(s.allotted) == 0 {
		return match.Reason{}
	}
	slices.SortStableFunc(s.allotted, func(a, b *provision) int { return cmp.Compare(b.of.Bytes, a.of.Bytes) })
	s.openRooms(at, g.class.name, d.freedBytes(at.node, g.class.name), d.besides)
	for _, p := range s.allotted {
		if p.room = s.allot(p.of.Bytes); p.room != nil {
			continue
		}
		if s.allotTogether(s.allotted) {
			break
		}
		return match.Reason{Code: match.NotEnoughSpace, Claim: p.of.Claim.Name, Held: s.held(p.of.Bytes)}
	}
	return match.Reason{}
}
