// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"slices"
	"strings"
)

// exactSolver finds a minimum-cost maximum matching by successive shortest
// augmenting paths: each round serves one more request, at the least cost for
// that many, and may move the volumes of others on the way.
//
// A path goes from an unserved request to a volume, from there to the request
// that holds it, which is left to find another one, and so on to a volume that
// nobody holds. Seen so, only requests are nodes: an edge leads from i to j
// when j holds one of i's candidates, and costs what i pays for it less what j
// paid. All unserved requests are sources. There are at most MaxExact nodes,
// whatever the number of volumes.
//
// Costs may be any ordered group, so the fourth of Assign's objectives is made
// part of it: a vector with one number per request, compared
// lexicographically, in which a request that holds the volume whose name is
// the r-th of m counts r-m and one that holds none counts 0.
type exactSolver struct {
	n          int // requests
	names      int // different volumes among the candidates
	byName     bool
	requests   [MaxExact]*Request
	candidates [MaxExact][]*Volume

	entries [MaxExact * MaxExact]candidateEntry
	rank    [MaxExact][MaxExact]int16 // of a candidate's name among all names
	holder  [MaxExact * MaxExact]int8 // by rank; none where nobody holds it
	held    [MaxExact]int8            // the index of the candidate that a request holds
	reached [MaxExact]bool            // by a path in this round
	dist    [MaxExact]cost            // of the cheapest path found
	vector  [MaxExact][MaxExact]int16 // its part of the cost that is about names
	from    [MaxExact]int8            // the request before it on that path
	via     [MaxExact]int8            // the index of from's candidate that is taken away
	queue   [MaxExact]int8            // ring of requests whose paths got cheaper
	queued  [MaxExact]bool
}

// candidateEntry is candidate number index of a request.
type candidateEntry struct {
	volume         *Volume
	request, index int8
}

const none = -1

// run fills the result of s.
func (x *exactSolver) run(s *Solver, byName bool) {
	x.n, x.byName = len(s.active), byName
	for i, a := range s.active {
		x.requests[i], x.candidates[i], x.held[i] = s.requests[a], s.candidates[a], none
	}
	x.rankNames()
	for x.augment() {
	}
	for i, a := range s.active {
		if x.held[i] != none {
			s.result[a] = x.candidates[i][x.held[i]]
		}
	}
	clear(x.requests[:x.n])
	clear(x.candidates[:x.n])
}

// rankNames gives equal names equal ranks, in the order of the names.
func (x *exactSolver) rankNames() {
	entries := x.entries[:0]
	for i := range x.n {
		for j, v := range x.candidates[i] {
			entries = append(entries, candidateEntry{v, int8(i), int8(j)})
		}
	}
	slices.SortFunc(entries, compareNames)
	rank := 0
	for i, e := range entries {
		if i > 0 && !same(e.volume, entries[i-1].volume) {
			rank++
		}
		x.rank[e.request][e.index] = int16(rank)
		x.holder[rank] = none
	}
	x.names = rank + 1
	clear(entries)
}

func compareNames(a, b candidateEntry) int {
	if a.volume == b.volume {
		return 0
	}
	return strings.Compare(a.volume.Name, b.volume.Name)
}

// augment serves one more request in the cheapest way, or reports that no more
// can be served.
func (x *exactSolver) augment() bool {
	x.searchPaths()
	last, candidate := none, none
	for i := range x.n {
		if !x.reached[i] {
			continue
		}
		// Of the volumes that nobody holds i's first is its cheapest.
		if c := x.firstUnheld(i); c != none && (last == none || x.endsCheaper(i, c, last, candidate)) {
			last, candidate = i, c
		}
	}
	if last == none {
		return false
	}
	for i, c := int8(last), int8(candidate); i != none; {
		x.held[i] = c
		x.holder[x.rank[i][c]] = i
		i, c = x.from[i], x.via[i]
	}
	return true
}

func (x *exactSolver) firstUnheld(i int) int {
	for c := range x.candidates[i] {
		if x.holder[x.rank[i][c]] == none {
			return c
		}
	}
	return none
}

// endsCheaper reports whether the path to i that ends with i taking its
// candidate c costs less than the one to j that ends with j taking d.
func (x *exactSolver) endsCheaper(i, c, j, d int) bool {
	a := x.dist[i].plus(costOf(x.requests[i], x.candidates[i][c]))
	b := x.dist[j].plus(costOf(x.requests[j], x.candidates[j][d]))
	if order := a.compare(b); order != 0 || !x.byName {
		return order < 0
	}
	for t := range x.n {
		p, q := x.vector[i][t], x.vector[j][t]
		if t == i {
			p += x.nameCost(i, c)
		}
		if t == j {
			q += x.nameCost(j, d)
		}
		if p != q {
			return p < q
		}
	}
	return false
}

// nameCost is what it counts in the vector when request i holds its candidate.
func (x *exactSolver) nameCost(i, candidate int) int16 {
	return x.rank[i][candidate] - int16(x.names)
}

// searchPaths finds the cheapest path from any unserved request to each
// request. There are no cycles of negative cost, because what is held so far
// is the cheapest way to serve that many, so the search ends.
func (x *exactSolver) searchPaths() {
	head, length := 0, 0
	for i := range x.n {
		x.reached[i], x.queued[i], x.from[i] = false, false, none
		if x.held[i] == none {
			x.reached[i], x.queued[i], x.dist[i] = true, true, cost{}
			clear(x.vector[i][:x.n])
			x.queue[length] = int8(i)
			length++
		}
	}
	for length > 0 {
		i := int(x.queue[head])
		head, length = (head+1)%MaxExact, length-1
		x.queued[i] = false
		for c := range x.candidates[i] {
			j := int(x.holder[x.rank[i][c]])
			if j == none || j == i || !x.relax(i, c, j) || x.queued[j] {
				continue
			}
			x.queue[(head+length)%MaxExact] = int8(j)
			x.queued[j], length = true, length+1
		}
	}
}

// relax makes the path to i, followed by i taking its candidate c from j, the
// path to j, and reports whether that is cheaper than the one known.
func (x *exactSolver) relax(i, c, j int) bool {
	held := int(x.held[j])
	dist := x.dist[i].plus(costOf(x.requests[i], x.candidates[i][c])).
		minus(costOf(x.requests[j], x.candidates[j][held]))
	if x.reached[j] {
		order := dist.compare(x.dist[j])
		if order == 0 && x.byName {
			order = x.compareVectors(i, c, j)
		}
		if order >= 0 {
			return false
		}
	}
	x.reached[j], x.dist[j], x.from[j], x.via[j] = true, dist, int8(i), int8(c)
	if x.byName {
		copy(x.vector[j][:x.n], x.vector[i][:x.n])
		x.vector[j][i] += x.nameCost(i, c)
		x.vector[j][j] -= x.nameCost(j, held)
	}
	return true
}

// compareVectors compares what relax would make of j's vector with what it is.
func (x *exactSolver) compareVectors(i, c, j int) int {
	for t := range x.n {
		p := x.vector[i][t]
		switch t {
		case i:
			p += x.nameCost(i, c)
		case j:
			p -= x.nameCost(j, int(x.held[j]))
		}
		if order := cmp.Compare(p, x.vector[j][t]); order != 0 {
			return order
		}
	}
	return 0
}
