// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"stowage.dev/stowage/pkg/scheduling/match"
)

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
	// because the claim has a selected node.
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
