// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

// MaxExact is the largest number of requests that are assigned exactly. Kubelet
// and drivers allow a node a few dozen volumes, so that real pods stay far
// below; for more, see Solver.Assign.
const MaxExact = 32

// edgeBudget bounds the candidates that are looked at in one call, so that a
// pod with thousands of claims cannot stall its scheduler.
const edgeBudget = 1 << 20

// Width returns how many candidates of each request an assignment of n
// requests looks at: pass that to Pool.Cheapest.
//
// n are enough. An assignment in which a request has a volume that is not
// among its n first can be changed to one of those, since the n-1 other
// requests cannot hold all of them, and by the order of the candidates the
// change makes neither waste nor surplus nor the list of names worse. Only
// above 1,024 requests are there fewer, and a request may then go unserved
// although all could have been served.
func Width(n int) int {
	if n <= MaxExact {
		return n
	}
	return min(n, max(edgeBudget/n, MaxExact))
}

// Solver assigns volumes to the requests of a pod that ask for the same class
// on the same node. It only holds memory to be used again: the zero value is
// ready, and one Solver must not be used by two goroutines at a time.
type Solver struct {
	requests   []*Request
	candidates [][]*Volume // cut to what must be looked at
	result     []*Volume
	active     []int // requests that have candidates

	exact exactSolver
	large largeSolver
}

// Assign gives each request at most one of its candidates and no volume to two
// requests. candidates[i] are distinct volumes that may serve requests[i], in
// the order of Before, at least the first Width(len(requests)) of them. A
// volume is known by its name. Of all possible assignments the result has, in
// this order,
//
//  1. the most requests served,
//  2. the least bytes given that were not asked for, summed over the served,
//  3. the fewest access modes given that were not asked for, likewise,
//  4. the lexicographically first list of volume names, in the order of the
//     requests, an unserved one after every name.
//
// When more than MaxExact requests have candidates, then only as many as
// possible are served, with small volumes tried first.
//
// result[i] is nil when requests[i] is not served. The result belongs to the
// Solver and is overwritten by its next call; the arguments are not changed.
func (s *Solver) Assign(requests []*Request, candidates [][]*Volume) []*Volume {
	return s.solve(requests, candidates, true)
}

// Serve is Assign without the fourth point, for callers that only ask how many
// requests can be served and how well. Equal arguments give equal results.
func (s *Solver) Serve(requests []*Request, candidates [][]*Volume) []*Volume {
	return s.solve(requests, candidates, false)
}

func (s *Solver) solve(requests []*Request, candidates [][]*Volume, byName bool) []*Volume {
	s.load(requests, candidates)
	switch {
	case len(s.active) > MaxExact:
		s.large.run(s)
	case !s.firstChoices():
		s.exact.run(s, byName)
	}
	s.requests = nil // keep no object alive but those of the result
	clear(s.candidates)
	return s.result
}

// load keeps what is needed of the arguments and forgets the previous call.
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

// firstChoices lets each request in turn take its first candidate that is not
// taken, and reports whether that is what Assign promises. It is when every
// request that has candidates got one as good as its own first: nothing can
// serve more, each waste and surplus is the least possible on its own, and a
// request with an earlier name could only have it from one before it in the
// list.
func (s *Solver) firstChoices() bool {
	for n, i := range s.active {
		v := s.firstUntaken(i, s.active[:n])
		first := s.candidates[i][0]
		if v == nil || v.Bytes != first.Bytes || v.AccessModes.Surplus(s.requests[i].AccessModes) !=
			first.AccessModes.Surplus(s.requests[i].AccessModes) {
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
