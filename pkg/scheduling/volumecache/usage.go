// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	v1 "k8s.io/api/core/v1"
)

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
