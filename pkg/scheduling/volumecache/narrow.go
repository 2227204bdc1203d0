// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// narrowest is the largest set of nodes worth naming: beyond it the set costs
// the scheduler more than it saves.
const narrowest = 100

// Nodes narrows the nodes that can have the pod, as far as that is cheap to
// know and nothing is lost by it: nil means any node. A reason means that no
// node can. A node left out can neither take the pod nor be made to by
// preemption.
func (c *Cache) Nodes(d *Demand) (sets.Set[string], match.Reason) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var n narrowing
	for _, claim := range d.bound {
		v := c.volume[claim.Spec.VolumeName]
		if v == nil {
			return nil, match.Reason{Code: match.VolumeMissing, Claim: claim.Name, Volume: claim.Spec.VolumeName}
		}
		if reason := v.lostTo(claim); reason.Code != match.Fits {
			return nil, reason
		}
		n.only(match.NodeConflict, v)
	}
	for i := range d.groups {
		g := &d.groups[i]
		for j := range g.pending {
			c.narrow(&n, g, &g.pending[j])
		}
	}
	if n.set != nil {
		c.noteRefused(d) // on the nodes that are left out
	}
	nodes, _ := c.index.Len()
	switch {
	case n.set == nil || len(n.set) == nodes:
		return nil, match.Reason{}
	case len(n.set) == 0:
		return nil, match.Reason{Code: n.last}
	}
	return n.set, match.Reason{}
}

// narrow takes in what is known of one delayed claim.
func (c *Cache) narrow(n *narrowing, g *group, p *pending) {
	if h := c.holds[p.key]; h != nil && h.uid == p.Claim.UID && h.stands(p) {
		if h.node != "" {
			n.keep(match.NodeNotSelected, sets.New(h.node))
		} else {
			n.only(match.ReservedVolumeMismatch, h.volume)
		}
		return
	}
	var named []*volume
	mine := false
	for _, v := range c.byClaim[p.key] {
		if match.RefersTo(v.PV.Spec.ClaimRef, p.Claim) {
			mine = true
			if p.FitsSpec(v.Volume) {
				named = append(named, v)
			}
		}
	}
	switch {
	case mine && len(named) == 0:
		n.only(c.mismatch(p).Code)
	case mine:
		n.only(match.ReservedVolumeMismatch, named...)
	case p.selected != "":
		n.keep(match.NodeNotSelected, sets.New(p.selected))
	case !g.provisions && len(c.ephemeral) == 0:
		// Nothing makes such volumes, and evicting pods frees none.
		c.narrowToPools(n, g, p)
	}
}

// narrowToPools keeps the nodes that have a free volume for the claim.
func (c *Cache) narrowToPools(n *narrowing, g *group, p *pending) {
	// Not worth the while when most nodes have volumes anyway.
	if total, _ := c.index.Len(); len(g.class.pools) > min(narrowest, total/2) {
		return
	}
	nodes := sets.New[string]()
	for segment, pool := range g.class.pools {
		if segment.Len() > narrowest {
			return
		}
		if pool.Serves(p.Request) {
			segment.Nodes(func(name string) bool { nodes.Insert(name); return true })
		}
	}
	if len(nodes) <= narrowest {
		n.keep(match.NoVolume, nodes)
	}
}

// narrowing intersects sets of nodes; set is nil until the first one.
type narrowing struct {
	set sets.Set[string]
	// last is why the set became what it is.
	last match.ReasonCode
}

func (n *narrowing) keep(why match.ReasonCode, nodes sets.Set[string]) {
	switch {
	case n.set == nil:
		n.set, n.last = nodes, why
	case len(n.set) > 0:
		n.set, n.last = n.set.Intersection(nodes), why
	}
}

// only keeps the nodes that can use one of the volumes. Where that depends on
// the node (CSI migration) or they are many, it keeps all.
func (n *narrowing) only(why match.ReasonCode, volumes ...*volume) {
	nodes := sets.New[string]()
	for _, v := range volumes {
		if v.translated != nil || v.segment.Len()+len(nodes) > narrowest {
			return
		}
		v.segment.Nodes(func(name string) bool { nodes.Insert(name); return true })
	}
	n.keep(why, nodes)
}
