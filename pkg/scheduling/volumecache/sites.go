// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeutil "k8s.io/component-helpers/node/util"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// sites are the nodes that a batch may provision on.
type sites struct {
	nodes []string // by name
	// byPool are those of each capacity pool, if the driver reports capacity.
	byPool []site
	// largest is at least what a volume may have in one of the pools, in bytes.
	largest int64
}

// site is the nodes that have a capacity pool.
type site struct {
	pool  *capacityPool
	nodes []string // by name
}

// provide provisions for a claim that no existing volume serves, or says why it cannot.
func (b *batch) provide(i int) {
	p := b.pending[i]
	if !b.group.provisions {
		b.assigned[i].Reason = match.Reason{Code: match.NoVolume, Claim: p.Claim.Name}
		return
	}
	if b.limit == 0 {
		return
	}
	if b.sites == nil {
		b.sites = b.findSites()
	}
	node, pool, reason := b.choose(i)
	if reason.Code != match.Fits {
		b.assigned[i].Reason = reason
		return
	}
	b.solution.provisions = append(b.solution.provisions[:0], provision{of: p, group: &b.group, pool: pool})
	b.made(i, node)
}

// findSites reads all nodes.
func (b *batch) findSites() *sites {
	s := &sites{largest: math.MaxInt64}
	allowed := b.group.class.allowed
	for entry := range b.index.Nodes {
		if (allowed == nil || allowed.Has(entry.Name)) && acceptsPods(entry.Object) && (!b.group.tracked || b.runsDriver(entry.Name)) {
			s.nodes = append(s.nodes, entry.Name)
		}
	}
	slices.Sort(s.nodes)
	if !b.group.tracked {
		return s
	}
	at := map[*capacityPool]int{}
	for _, name := range s.nodes {
		for _, pool := range b.poolsOf(name) {
			if _, known := at[pool]; !known {
				at[pool] = len(s.byPool)
				s.byPool = append(s.byPool, site{pool: pool})
			}
			of := &s.byPool[at[pool]]
			of.nodes = append(of.nodes, name)
		}
	}
	slices.SortFunc(s.byPool, func(a, b site) int { return a.pool.newest.compare(b.pool.newest) })
	return s
}

// poolsOf returns the capacity pools of the class on a node.
func (b *batch) poolsOf(node string) (pools []*capacityPool) {
	for _, segment := range b.index.Node(node).Segments {
		if pool := segment.Data.capacity[b.group.class.name]; pool != nil && pool.newest != nil {
			pools = append(pools, pool)
		}
	}
	return pools
}

// acceptsPods reports whether the node is ready and not cordoned.
func acceptsPods(node *v1.Node) bool {
	_, ready := nodeutil.GetNodeCondition(&node.Status, v1.NodeReady)
	return !node.Spec.Unschedulable && node.DeletionTimestamp == nil && ready != nil && ready.Status == v1.ConditionTrue
}

// runsDriver reports whether the driver of the class is registered on the node.
func (b *batch) runsDriver(node string) bool {
	csiNode, err := b.csiNodes.Get(node)
	if err != nil {
		return false
	}
	for i := range csiNode.Spec.Drivers {
		if csiNode.Spec.Drivers[i].Name == b.group.class.object.Provisioner {
			return true
		}
	}
	return false
}

// choose returns the node to provision on for a claim, and the pool with its capacity, nil if
// that is not tracked. If all nodes were rejected, it begins again.
func (b *batch) choose(i int) (node string, pool *capacityPool, reason match.Reason) {
	of, bytes, s := b.of[i], b.pending[i].Bytes, b.sites
	if len(s.nodes) == 0 || of.Node != "" && !has(s.nodes, of.Node) {
		return "", nil, match.Reason{Code: match.TopologyNotAllowed, Claim: of.Claim.Name}
	}
	switch {
	case !b.group.tracked:
		node = of.pick(s.nodes)
	case of.Node != "":
		node, pool = mostLeft(b.sitesOn(of.Node), of, bytes)
	case bytes <= s.largest:
		node, pool = mostLeft(s.byPool, of, bytes)
	}
	switch {
	case node != "":
		return node, pool, match.Reason{}
	case of.Rejected.Len() > 0:
		b.of[i].Rejected = nil
		return b.choose(i)
	case of.Node == "" && bytes <= s.largest:
		s.largest = largest(s.byPool)
	}
	return "", nil, match.Reason{Code: match.NotEnoughSpace, Claim: of.Claim.Name}
}

// sitesOn are those of a node. It is read alone: many claims may name nodes that are full.
func (b *batch) sitesOn(node string) (on []site) {
	for _, pool := range b.poolsOf(node) {
		on = append(on, site{pool, []string{node}})
	}
	return on
}

// mostLeft returns the pool with the most bytes left of those that have enough for the claim
// on a node that it may use, and that node.
func mostLeft(of []site, claim Podless, bytes int64) (node string, pool *capacityPool) {
	for i := range of {
		candidate := &of[i]
		if !candidate.pool.fits(bytes) || pool != nil && candidate.pool.compareLeft(pool) >= 0 {
			continue
		}
		if on := claim.pick(candidate.nodes); on != "" {
			node, pool = on, candidate.pool
		}
	}
	return node, pool
}

// largest returns the bytes of the largest volume that fits a pool.
func largest(of []site) int64 {
	bytes := int64(-1)
	for i := range of {
		pool := of[i].pool
		bytes = max(bytes, min(pool.newest.largest, pool.remaining()))
	}
	return bytes
}

// compareLeft orders pools: the one with the most bytes left first, then the one with the
// fewest holds.
func (p *capacityPool) compareLeft(other *capacityPool) int {
	return cmp.Or(cmp.Compare(other.remaining(), p.remaining()), cmp.Compare(len(p.holds), len(other.holds)))
}

// pick spreads claims over nodes: it returns the claim's own node if it is restricted to one,
// else a node that was not rejected, which depends on the claim's UID; empty if there is none.
func (of Podless) pick(nodes []string) string {
	if of.Node != "" {
		if has(nodes, of.Node) {
			return of.Node
		}
		return ""
	}
	first := spread(of.Claim.UID, len(nodes))
	for n := range nodes {
		if node := nodes[(first+n)%len(nodes)]; !of.Rejected.Has(node) {
			return node
		}
	}
	return ""
}

func has(sorted []string, name string) bool {
	_, found := slices.BinarySearchFunc(sorted, name, strings.Compare)
	return found
}

func spread(uid types.UID, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return int(h.Sum32() % uint32(n))
}
