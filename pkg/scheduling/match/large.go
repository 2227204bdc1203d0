// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import "math"

// largeSolver serves as many requests as possible, by the algorithm of Hopcroft and Karp,
// ignoring waste: its time is bounded by the square root of the number of requests times
// the number of candidates.
type largeSolver struct {
	ids        map[string]int32 // by volume name
	edges      [][]int32        // volume ids, by active request
	edgeBuffer []int32          // backing array of edges
	holder     []int32          // active request, by volume id
	held       []int32          // volume id, by active request
	level      []int32          // of an active request, in this round
	next       []int32          // first edge not tried in this round
	queue      []int32
	freeLevel  int32 // level of the requests that have a free candidate
	volumes    []*Volume
}

// run sets the result of s.
func (x *largeSolver) run(s *Solver) {
	x.load(s)
	for x.layer() {
		for i := range x.held {
			if x.held[i] == none {
				x.descend(int32(i))
			}
		}
	}
	for i, a := range s.active {
		if x.held[i] != none {
			s.result[a] = x.volumes[x.held[i]]
		}
	}
	clear(x.ids)
	clear(x.volumes)
}

// load numbers the volumes and gives each request its first free candidate.
func (x *largeSolver) load(s *Solver) {
	if x.ids == nil {
		x.ids = map[string]int32{}
	}
	x.edgeBuffer, x.edges, x.volumes = x.edgeBuffer[:0], x.edges[:0], x.volumes[:0]
	x.holder, x.held = x.holder[:0], x.held[:0]
	total := 0
	for _, a := range s.active {
		total += len(s.candidates[a])
	}
	if cap(x.edgeBuffer) < total {
		x.edgeBuffer = make([]int32, 0, total)
	}
	for i, a := range s.active {
		start := len(x.edgeBuffer)
		held := int32(none)
		for _, v := range s.candidates[a] {
			id := x.id(v)
			x.edgeBuffer = append(x.edgeBuffer, id)
			if held == none && x.holder[id] == none {
				held, x.holder[id] = id, int32(i)
			}
		}
		x.edges = append(x.edges, x.edgeBuffer[start:])
		x.held = append(x.held, held)
	}
	x.level = resize(x.level, len(x.held))
	x.next = resize(x.next, len(x.held))
}

func (x *largeSolver) id(v *Volume) int32 {
	id, ok := x.ids[v.Name]
	if !ok {
		id = int32(len(x.volumes))
		x.ids[v.Name] = id
		x.volumes = append(x.volumes, v)
		x.holder = append(x.holder, none)
	}
	return id
}

// layer computes the distance of each request from an unserved one, along volumes held by
// others, up to the nearest free volume. It reports whether a free volume can be reached.
func (x *largeSolver) layer() bool {
	x.queue, x.freeLevel = x.queue[:0], math.MaxInt32
	for i := range x.held {
		x.level[i], x.next[i] = none, 0
		if x.held[i] == none {
			x.level[i] = 0
			x.queue = append(x.queue, int32(i))
		}
	}
	for head := 0; head < len(x.queue); head++ {
		i := x.queue[head]
		if x.level[i] >= x.freeLevel {
			break
		}
		for _, id := range x.edges[i] {
			switch j := x.holder[id]; {
			case j == none:
				x.freeLevel = x.level[i]
			case x.level[j] == none:
				x.level[j] = x.level[i] + 1
				x.queue = append(x.queue, j)
			}
		}
	}
	return x.freeLevel != math.MaxInt32
}

// descend assigns a volume to request i along the layers, trying each edge at most once a
// round, and reports whether it succeeded.
func (x *largeSolver) descend(i int32) bool {
	for ; int(x.next[i]) < len(x.edges[i]); x.next[i]++ {
		id := x.edges[i][x.next[i]]
		j := x.holder[id]
		if j == none || (x.level[j] == x.level[i]+1 && x.level[j] <= x.freeLevel && x.descend(j)) {
			x.holder[id], x.held[i] = i, id
			x.next[i]++
			return true
		}
	}
	return false
}

func resize(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}
