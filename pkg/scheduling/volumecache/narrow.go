// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// maxNarrowed is the largest set of nodes that is returned: a larger one costs
// the scheduler more than it saves.
const maxNarrowed = 100

// Nodes returns the nodes that the pod may fit, as far as that is cheap to compute: nil
// means any node. A reason means that no node fits. The pod does not fit a node that is
// left out, with or without preemption there.
func (c *Cache) Nodes(d *Demand) (sets.Set[string], match.Reason) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var n narrowing
	for _, claim := range d.bound {
		v := c.volume[claim.Spec.VolumeName]
		if v == nil {
			return nil, match.Reason{Code: match.VolumeMissing, Claim: claim.Name, Volume: claim.Spec.VolumeName}
		}
		if reason := v.diskReason(claim); reason.Code != match.Fits {
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
		c.noteRejected(d) // on the nodes that are left out
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

// narrow restricts the nodes to those that one delayed claim allows.
func (c *Cache) narrow(n *narrowing, g *group, p *pending) {
	if h := c.reserved.byClaim[p.key]; h != nil && h.uid == p.Claim.UID && h.valid(p) {
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
		n.only(c.mismatchReason(p).Code)
	case mine:
		n.only(match.ReservedVolumeMismatch, named...)
	case p.selected != "":
		n.keep(match.NodeNotSelected, sets.New(p.selected))
	case !g.provisions && len(c.ephemeral) == 0:
		// Nothing provisions such volumes, and evicting pods frees none.
		c.narrowToPools(n, g, p)
	}
}

// narrowToPools keeps the nodes that have a free volume for the claim.
func (c *Cache) narrowToPools(n *narrowing, g *group, p *pending) {
	// Most nodes may have volumes: narrowing saves little.
	if total, _ := c.index.Len(); len(g.class.pools) > min(maxNarrowed, total/2) {
		return
	}
	nodes := sets.New[string]()
	for segment, pool := range g.class.pools {
		if segment.Len() > maxNarrowed {
			return
		}
		if pool.Serves(p.Request) {
			segment.Nodes(func(name string) bool { nodes.Insert(name); return true })
		}
	}
	if len(nodes) <= maxNarrowed {
		n.keep(match.NoVolume, nodes)
	}
}

// narrowing intersects sets of nodes; set is nil until the first one.
type narrowing struct {
	set sets.Set[string]
	// last is the reason of the last restriction.
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

// only keeps the nodes that can use one of the volumes. If that depends on
// the node (CSI migration) or the nodes are many, it keeps all.
func (n *narrowing) only(why match.ReasonCode, volumes ...*volume) {
	nodes := sets.New[string]()
	for _, v := range volumes {
		if v.translated != nil || v.segment.Len()+len(nodes) > maxNarrowed {
			return
		}
		v.segment.Nodes(func(name string) bool { nodes.Insert(name); return true })
	}
	n.keep(why, nodes)
}
