// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"math/bits"
)

// MaxExact is the largest number of requests that are assigned optimally. Kubelet and
// drivers allow a node a few dozen volumes, so real pods stay far below; for more, see
// Solver.Assign.
const MaxExact = 32

// edgeBudget bounds the candidates that one call considers, so that a pod with thousands
// of claims cannot stall its scheduler.
const edgeBudget = 1 << 20

// Width returns how many candidates of each request an assignment of n requests
// considers: pass it to Pool.Cheapest.
//
// n are enough. In an assignment that gives a request a volume that is not among its
// first n, one of those is not taken, since there are only n-1 other requests; by the
// order of the candidates, the exchange makes neither waste nor surplus nor the list of
// names worse. Only above 1,024 requests are fewer considered, and a request may then go
// unserved although all could be served.
func Width(n int) int {
	if n <= MaxExact {
		return n
	}
	return min(n, max(edgeBudget/n, MaxExact))
}

// Solver assigns volumes to the requests of a pod for the same class on the same node. It
// only keeps memory for reuse: the zero value is ready, and it is not safe for concurrent
// use.
type Solver struct {
	requests   []*Request
	candidates [][]*Volume // truncated to Width
	result     []*Volume
	active     []int // requests that have candidates

	exact exactSolver
	large largeSolver
}

// Assign gives each request at most one of its candidates and no volume to two requests.
// candidates[i] are distinct volumes that may serve requests[i], in the order of Less, at
// least the first Width(len(requests)) of them. Volumes are identified by name. Of all
// possible assignments the result has, in this order,
//
//  1. the most requests served,
//  2. the fewest bytes in excess of the requests, summed over the served,
//  3. the fewest access modes that were not requested, likewise.
//
// Equal arguments give equal results. If more than MaxExact requests have candidates, only the number of served requests is
// maximal, with small volumes tried first.
//
// result[i] is nil if requests[i] is not served. The result belongs to the Solver and is
// overwritten by its next call; the arguments are not changed.
func (s *Solver) Assign(requests []*Request, candidates [][]*Volume) []*Volume {
	return s.solve(requests, candidates, false)
}

// Serve serves the same requests as Assign, at any cost.
func (s *Solver) Serve(requests []*Request, candidates [][]*Volume) []*Volume {
	return s.solve(requests, candidates, true)
}

func (s *Solver) solve(requests []*Request, candidates [][]*Volume, anyCost bool) []*Volume {
	s.load(requests, candidates)
	switch {
	case len(s.active) > MaxExact:
		s.large.run(s)
	case !s.firstChoices(anyCost):
		s.exact.run(s)
	}
	s.requests = nil // retain no objects but those of the result
	clear(s.candidates)
	return s.result
}

// load resets the solver and copies what it needs of the arguments.
func (s *Solver) load(requests []*Request, candidates [][]*Volume) {
	s.requests, s.active = requests, s.active[:0]
	for i := range requests {
		if len(candidates[i]) > 0 {
			s.active = append(s.active, i)
		}
	}
	s.candidates, s.result = s.candidates[:0], s.result[:0]
	for i := range requests {
		width := min(len(candidates[i]), Width(len(s.active)))
		s.candidates = append(s.candidates, candidates[i][:width])
		s.result = append(s.result, nil)
	}
}

// firstChoices gives each request in turn its first untaken candidate. It reports whether
// every request that has candidates got one, so that no assignment serves more, and,
// unless the cost does not matter, one as good as its own first, so that no assignment
// costs less.
func (s *Solver) firstChoices(anyCost bool) bool {
	for n, i := range s.active {
		v := s.firstUntaken(i, s.active[:n])
		if v == nil || !anyCost && v != s.candidates[i][0] && costOf(s.requests[i], v) != costOf(s.requests[i], s.candidates[i][0]) {
			clear(s.result)
			return false
		}
		s.result[i] = v
	}
	return true
}

func (s *Solver) firstUntaken(i int, earlier []int) *Volume {
candidates:
	for _, v := range s.candidates[i] {
		for _, j := range earlier {
			if same(v, s.result[j]) {
				continue candidates
			}
		}
		return v
	}
	return nil
}

func same(a, b *Volume) bool { return a == b || a.Name == b.Name }

// cost ranks assignments that serve equally many requests: wasted bytes, as a signed
// 128-bit number because a few volumes of the largest size would overflow 64 bits, then
// surplus access modes. Costs add, subtract and compare like numbers, as shortest paths
// require.
type cost struct {
	high    int64
	low     uint64
	surplus int64
}

// costOf is the cost of assigning the volume to the request.
func costOf(r *Request, v *Volume) cost {
	low, borrow := bits.Sub64(uint64(v.Bytes), uint64(r.Bytes), 0)
	return cost{
		high:    v.Bytes>>63 - r.Bytes>>63 - int64(borrow),
		low:     low,
		surplus: int64(v.AccessModes.Surplus(r.AccessModes)),
	}
}

func (a cost) plus(b cost) cost {
	low, carry := bits.Add64(a.low, b.low, 0)
	return cost{a.high + b.high + int64(carry), low, a.surplus + b.surplus}
}

func (a cost) minus(b cost) cost {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	return cost{a.high - b.high - int64(borrow), low, a.surplus - b.surplus}
}

func (a cost) compare(b cost) int {
	if a.high != b.high {
		return cmp.Compare(a.high, b.high)
	}
	if a.low != b.low {
		return cmp.Compare(a.low, b.low)
	}
	return cmp.Compare(a.surplus, b.surplus)
}
