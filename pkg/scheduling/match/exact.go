// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"
	"strings"
)

// exactSolver finds a minimum-cost maximum matching by successive shortest augmenting
// paths: each round serves one more request at the least cost, and may reassign the
// volumes of other requests.
//
// A path goes from an unserved request to a volume, from there to the request that holds
// it, which then needs another volume, and so on to a volume without holder. Volumes are
// implicit, only requests are nodes: an edge leads from i to j if j holds one of i's
// candidates, and costs what i pays for it less what j paid. All unserved requests are
// sources. There are at most MaxExact nodes, whatever the number of volumes.
type exactSolver struct {
	n          int // requests
	requests   [MaxExact]*Request
	candidates [MaxExact][]*Volume

	entries [MaxExact * MaxExact]candidateEntry
	rank    [MaxExact][MaxExact]int16 // of a candidate's name, in the order of names
	holder  [MaxExact * MaxExact]int8 // by rank; none if the volume has no holder
	held    [MaxExact]int8            // index of the candidate that a request holds
	reached [MaxExact]bool            // in this search
	dist    [MaxExact]cost            // of the cheapest path found
	from    [MaxExact]int8            // the other request of that path's first or last edge
	via     [MaxExact]int8            // index of the candidate of that edge
	queue   [MaxExact]int8            // ring of requests whose paths became cheaper
	queued  [MaxExact]bool
}

// candidateEntry is candidate number index of a request.
type candidateEntry struct {
	volume         *Volume
	request, index int8
}

const none = -1

// run sets the result of s.
func (x *exactSolver) run(s *Solver) {
	x.n = len(s.active)
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

// rankNames ranks candidates by name; equal names have equal ranks.
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
	clear(entries)
}

func compareNames(a, b candidateEntry) int {
	if a.volume == b.volume {
		return 0
	}
	return strings.Compare(a.volume.Name, b.volume.Name)
}

// augment serves one more request at the least cost, or reports that no more can be
// served.
func (x *exactSolver) augment() bool {
	x.searchPaths()
	last, candidate := none, none
	for i := range x.n {
		if !x.reached[i] {
			continue
		}
		// Of the volumes without holder, i's first is its cheapest.
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
	return x.dist[i].plus(x.costOf(i, c)).compare(x.dist[j].plus(x.costOf(j, d))) < 0
}

// costOf is the cost of the request's candidate, zero for none.
func (x *exactSolver) costOf(i, candidate int) cost {
	if candidate == none {
		return cost{}
	}
	return costOf(x.requests[i], x.candidates[i][candidate])
}

// searchPaths finds the cheapest path from any unserved request to each request. There
// are no cycles of negative cost, because the current assignment is the cheapest that
// serves as many requests, so the search ends.
func (x *exactSolver) searchPaths() {
	head, length := 0, 0
	for i := range x.n {
		x.reached[i], x.queued[i], x.from[i] = false, false, none
		if x.held[i] == none {
			x.reached[i], x.queued[i], x.dist[i] = true, true, cost{}
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

// relax considers the path to i, followed by i taking its candidate c from j, as the path
// to j, and reports whether it is cheaper than the known one.
func (x *exactSolver) relax(i, c, j int) bool {
	dist := x.dist[i].plus(x.costOf(i, c)).minus(x.costOf(j, int(x.held[j])))
	if x.reached[j] && dist.compare(x.dist[j]) >= 0 {
		return false
	}
	x.reached[j], x.dist[j], x.from[j], x.via[j] = true, dist, int8(i), int8(c)
	return true
}
