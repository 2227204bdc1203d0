// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// allotAll finds capacity for all provisions of a group together: the largest first,
// each in the pool with the most bytes left. If that fails it tries all combinations,
// for no more than maxTogether volumes.
func (c *Cache) allotAll(s *solution, d *Demand, g *group, at location, provisions []provision) match.Reason {
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
	s.openCapacity(at, g.class.name, d.freedBytes(at.node, g.class.name), d.pendingUsage)
	for _, p := range s.allotted {
		if p.pool = s.allot(p.of.Bytes); p.pool != nil {
			continue
		}
		if s.allotTogether(s.allotted) {
			break
		}
		return match.Reason{Code: match.NotEnoughSpace, Claim: p.of.Claim.Name, Held: s.fitsWithoutHolds(p.of.Bytes)}
	}
	return match.Reason{}
}

// counts reports whether a report of the class's capacity on the node includes the volume of a claim,
// which does not exist yet.
func (l location) counts(class string, claim types.UID) bool {
	return slices.ContainsFunc(l.segments, func(of *segment) bool {
		r := of.Data.capacity[class]
		return r != nil && r.newest != nil && r.newest.counted.Has(claim)
	})
}

// freedBytes is the bytes that simulated evictions free of a class.
func (d *Demand) freedBytes(node, class string) int64 {
	var bytes int64
	for i := range d.evictions[node] {
		if f := &d.evictions[node][i]; f.class == class {
			bytes = saturate(bytes, f.bytes)
		}
	}
	return bytes
}

// share is what the current group has taken of a capacity pool.
type share struct {
	pool  *capacityPool
	left  int64 // bytes left before the group
	taken int64
}

// openCapacity lists the capacity pools of the class of the node, the one with the most
// bytes left first, ties by name. freed bytes, those of evicted pods, count as free in
// each pool; pendingUsage is what other pods will take.
func (s *solution) openCapacity(at location, class string, freed int64, pendingUsage map[CapacityPool]int64) {
	s.shares = s.shares[:0]
	for _, segment := range at.segments {
		r := segment.Data.capacity[class]
		if r == nil || r.newest == nil {
			continue
		}
		left := r.remaining()
		if left != math.MaxInt64 {
			left = max(0, saturate(left, freed)-pendingUsage[CapacityPool{r}])
		}
		s.shares = append(s.shares, share{pool: r, left: left})
	}
	slices.SortFunc(s.shares, func(a, b share) int {
		if a.left != b.left {
			return cmp.Compare(b.left, a.left)
		}
		return a.pool.newest.compare(b.pool.newest)
	})
}

// compare orders objects by name.
func (a *capacity) compare(b *capacity) int {
	return cmp.Or(cmp.Compare(a.object.Namespace, b.object.Namespace), cmp.Compare(a.object.Name, b.object.Name))
}

// allot returns the pool with the most bytes left for a volume of that size; nil if
// none has enough.
func (s *solution) allot(bytes int64) *capacityPool {
	best := -1
	for i := range s.shares {
		left := s.shares[i].left - s.shares[i].taken
		if bytes <= s.shares[i].pool.newest.largest && bytes <= left && (best < 0 || left > s.shares[best].left-s.shares[best].taken) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	if s.shares[best].left < math.MaxInt64 {
		s.shares[best].taken += bytes
	}
	return s.shares[best].pool
}

// fitsWithoutHolds reports whether a volume of that size would fit if nothing were held.
func (s *solution) fitsWithoutHolds(bytes int64) bool {
	return slices.ContainsFunc(s.shares, func(share share) bool {
		return share.pool.held > 0 && bytes <= min(share.pool.newest.total, share.pool.newest.largest)
	})
}

// allotTogether finds pools for several volumes if there is any combination: choosing the
// pool with the most bytes left for each may miss it. It sets the provisions' pools and
// reports whether it found a combination, for no more than maxTogether volumes.
//
// It computes all sets of volumes, as bits, that the first pools can provide together,
// and for each the set that the last of these pools provides.
func (s *solution) allotTogether(provisions []*provision) bool {
	if len(s.shares) < 2 || len(provisions) > maxTogether {
		return false // with one pool, all combinations are equal
	}
	all := 1<<len(provisions) - 1
	var sum, largest [1 << maxTogether]int64
	for set := 1; set <= all; set++ {
		last := bits.Len(uint(set)) - 1
		rest := set &^ (1 << last)
		sum[set] = saturate(sum[rest], provisions[last].of.Bytes)
		largest[set] = max(largest[rest], provisions[last].of.Bytes)
	}
	var reached [1 << maxTogether]bool
	reached[0] = true
	s.rows = s.rows[:0]
	for i := range s.shares {
		var row [1 << maxTogether]uint8
		for set := all; set > 0; set-- { // parts of the set are smaller, so they do not use this pool yet
			for part := set; part > 0 && !reached[set]; part = (part - 1) & set {
				if reached[set&^part] && sum[part] <= s.shares[i].left && largest[part] <= s.shares[i].pool.newest.largest {
					reached[set], row[set] = true, uint8(part)
				}
			}
		}
		if s.rows = append(s.rows, row); reached[all] {
			break
		}
	}
	if !reached[all] {
		return false
	}
	for i, set := len(s.rows)-1, all; set > 0; i-- {
		part := int(s.rows[i][set])
		for j, p := range provisions {
			if part&(1<<j) != 0 {
				p.pool = s.shares[i].pool
			}
		}
		set &^= part
	}
	return true
}

// maxTogether bounds the volumes for which allotTogether finds pools.
const maxTogether = 8
