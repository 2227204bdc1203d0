// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// Fits returns why the pod's claims do not fit the node, as passed by the caller; the zero
// Reason means that they fit. Nothing is reserved. It does not
// allocate if the node is the indexed object.
func (c *Cache) Fits(d *Demand, node *v1.Node) match.Reason {
	s := c.scratch.Get().(*solution)
	c.mu.RLock()
	reason := c.fits(s, d, node)
	if reason.Code != match.Fits {
		c.noteRejected(d)
	}
	c.mu.RUnlock()
	c.putScratch(s)
	return reason
}

func (c *Cache) fits(s *solution, d *Demand, node *v1.Node) match.Reason {
	return c.solve(s, d, c.locationOf(node), feasible)
}

// solve decides whether the pod fits one node. With effort above feasible, s contains
// what would be bound and provisioned. The caller holds the lock.
func (c *Cache) solve(s *solution, d *Demand, at location, e effort) match.Reason {
	for _, claim := range d.bound {
		v := c.volume[claim.Spec.VolumeName]
		if v == nil {
			return match.Reason{Code: match.VolumeMissing, Claim: claim.Name, Volume: claim.Spec.VolumeName}
		}
		if reason := v.diskReason(claim); reason.Code != match.Fits {
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

// solveGroup serves the pod's claims of one class: first those without a choice, then
// with existing volumes, then by provisioning.
func (c *Cache) solveGroup(s *solution, d *Demand, g *group, at location, e effort) match.Reason {
	s.open = s.open[:0]
	first := len(s.provisions)
	for i := range g.pending {
		if reason := c.solveFixed(s, g, &g.pending[i], at); reason.Code != 0 {
			return reason
		}
	}
	canProvision := g.provisions && (g.class.allowed == nil || at.in(g.class.allowed))
	if e == feasible && canProvision && !g.tracked {
		return match.Reason{} // claims without a volume are provisioned
	}
	if len(s.open) > 0 {
		if reason := c.matchOpen(s, d, g, at, e, canProvision); reason.Code != 0 {
			return reason
		}
	}
	if len(s.provisions) == first || !g.tracked {
		return match.Reason{}
	}
	return c.allotAll(s, d, g, at, s.provisions[first:])
}

// solveFixed handles claims that have no choice: reserved by another pod
// that uses the same claim, named by a volume (rule 1), or with a selected node.
// All others become open.
func (c *Cache) solveFixed(s *solution, g *group, p *pending, at location) match.Reason {
	if h := c.reserved.byClaim[p.key]; h != nil && h.uid == p.Claim.UID && h.valid(p) {
		return c.solveHeld(s, h, g, p, at)
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
		s.bindings = append(s.bindings, binding{p, best.Volume})
	case mine:
		return c.mismatchReason(p)
	case p.selected == "":
		s.open = append(s.open, p)
	case p.selected != at.node:
		return match.Reason{Code: match.NodeNotSelected, Claim: p.Claim.Name}
	default:
		s.provisions = append(s.provisions, provision{of: p, group: g, held: at.counts(g.class.name, p.Claim.UID)})
	}
	return match.Reason{}
}

// valid reports whether the reservation still applies to the claim: not after its
// volume was contradicted, nor after its node was deleted, nor once only the volume that
// was provisioned matters.
func (h *hold) valid(p *pending) bool {
	if h.node == "" {
		return h.volume != nil
	}
	return len(h.pods) > 0 || p.selected != "" && (h.appeared == 0 || h.pool != nil)
}

// solveHeld handles a claim that has a valid reservation.
func (c *Cache) solveHeld(s *solution, h *hold, g *group, p *pending, at location) match.Reason {
	switch {
	case h.node != "" && h.node == at.node:
		s.provisions = append(s.provisions, provision{of: p, group: g, held: true})
	case h.node != "":
		return match.Reason{Code: match.NodeNotSelected, Claim: p.Claim.Name}
	case h.volume.DiskProblem != match.Fits:
		return h.volume.diskReason(p.Claim)
	case at.in(c.segmentOn(h.volume, at.node)):
		s.bindings = append(s.bindings, binding{p, h.volume.Volume})
	default:
		return match.Reason{Code: match.ReservedVolumeMismatch, Claim: p.Claim.Name, Volume: h.volume.Name}
	}
	return match.Reason{}
}

// diskReason is why the claim that has the volume cannot use it on any node: the
// volume's disk is lost. Fits if it is not.
func (v *volume) diskReason(claim *v1.PersistentVolumeClaim) match.Reason {
	if v.DiskProblem == match.Fits {
		return match.Reason{}
	}
	return match.Reason{Code: v.DiskProblem, Claim: claim.Name, Volume: v.Name}
}

// mismatchReason is why none of the volumes that name the claim can serve it: a lost
// disk if one of them has lost its disk. The caller holds the lock.
func (c *Cache) mismatchReason(p *pending) match.Reason {
	first := ""
	for _, v := range c.byClaim[p.key] {
		if !match.RefersTo(v.PV.Spec.ClaimRef, p.Claim) {
			continue
		}
		if v.DiskProblem != match.Fits {
			return v.diskReason(p.Claim)
		}
		if first == "" {
			first = v.Name
		}
	}
	return match.Reason{Code: match.ReservedVolumeMismatch, Claim: p.Claim.Name, Volume: first}
}

// effort is how complete an answer the caller needs.
type effort int

const (
	// feasible: whether the pod fits; the solution may be incomplete.
	feasible effort = iota
	// exact: the assignment that Reserve carries out.
	exact
)

// solution is the scratch memory and the result of solving one pod for one node. It is
// reused.
type solution struct {
	solver     match.Solver
	open       []*pending // of the current group, to be matched
	requests   []*match.Request
	candidates [][]*match.Volume
	flat       []*match.Volume
	ends       []int // of each claim's candidates in flat
	shares     []share
	rows       [][1 << maxTogether]uint8 // of allotTogether
	allotted   []*provision              // of the current group, by size

	bindings   []binding
	provisions []provision
}

// binding is a claim that an existing volume serves.
type binding struct {
	of     *pending
	volume *match.Volume
}

// provision is a claim to provision for.
type provision struct {
	of    *pending
	group *group
	pool  *capacityPool // nil: not bounded
	// held: its bytes are held already, for another pod that uses the claim or
	// because the claim has a selected node; or the report of the capacity counts them.
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

// putScratch returns a solution that is no longer needed to the pool.
func (c *Cache) putScratch(s *solution) {
	s.reset()
	c.scratch.Put(s)
}

// Usage is how full a class's storage on a node would be with the pod's claims, in bytes;
// zero if the claims use none of that kind.
type Usage struct {
	StaticAsked, StaticGiven        int64
	ProvisionedAsked, ProvisionedOf int64
}

// Usage appends, for each class of the pod's delayed claims, how full the
// node's storage would be. Classes whose claims no longer fit the node are left out.
func (c *Cache) Usage(d *Demand, node *v1.Node, dst []Usage) []Usage {
	s := c.scratch.Get().(*solution)
	defer c.putScratch(s)
	c.mu.RLock()
	defer c.mu.RUnlock()
	at := c.locationOf(node)
	for i := range d.groups {
		bindings, provisions := len(s.bindings), len(s.provisions)
		if c.solveGroup(s, d, &d.groups[i], at, exact).Code != 0 {
			continue
		}
		dst = append(dst, s.usage(s.bindings[bindings:], s.provisions[provisions:]))
	}
	return dst
}

func (s *solution) usage(bindings []binding, provisions []provision) Usage {
	var u Usage
	for _, b := range bindings {
		u.StaticAsked = saturate(u.StaticAsked, b.of.Bytes)
		u.StaticGiven = saturate(u.StaticGiven, b.volume.Bytes)
	}
	for i, p := range provisions {
		of := p.pool
		if of == nil || !of.limited() {
			continue
		}
		u.ProvisionedAsked = saturate(u.ProvisionedAsked, p.of.Bytes)
		counted := false
		for _, earlier := range provisions[:i] {
			counted = counted || earlier.pool == of
		}
		if !counted {
			u.ProvisionedOf = saturate(u.ProvisionedOf, of.newest.total)
			u.ProvisionedAsked = saturate(u.ProvisionedAsked, of.newest.total-of.remaining())
		}
	}
	return u
}
