// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import "math"

// largeSolver serves as many requests as possible, by the algorithm of
// Hopcroft and Karp, without looking at waste: its time is bounded by the
// square root of the number of requests times the number of candidates.
type largeSolver struct {
	ids        map[string]int32 // by volume name
	edges      [][]int32        // volume ids, by active request
	memory     []int32          // that edges share
	holder     []int32          // active request, by volume id
	held       []int32          // volume id, by active request
	level      []int32          // of an active request in this round
	next       []int32          // the first edge not yet tried in this round
	queue      []int32
	freeLevel  int32 // the level of requests that a free volume ends
	everything []*Volume
}

// run fills the result of s.
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
			s.result[a] = x.everything[x.held[i]]
		}
	}
	clear(x.ids)
	clear(x.everything)
}

// load numbers the volumes and lets each request take its first free one.
func (x *largeSolver) load(s *Solver) {
	if x.ids == nil {
		x.ids = map[string]int32{}
	}
	x.memory, x.edges, x.everything = x.memory[:0], x.edges[:0], x.everything[:0]
	x.holder, x.held = x.holder[:0], x.held[:0]
	total := 0
	for _, a := range s.active {
		total += len(s.candidates[a])
	}
	if cap(x.memory) < total {
		x.memory = make([]int32, 0, total)
	}
	for i, a := range s.active {
		start := len(x.memory)
		held := int32(none)
		for _, v := range s.candidates[a] {
			id := x.id(v)
			x.memory = append(x.memory, id)
			if held == none && x.holder[id] == none {
				held, x.holder[id] = id, int32(i)
			}
		}
		x.edges = append(x.edges, x.memory[start:])
		x.held = append(x.held, held)
	}
	x.level = resize(x.level, len(x.held))
	x.next = resize(x.next, len(x.held))
}

func (x *largeSolver) id(v *Volume) int32 {
	id, ok := x.ids[v.Name]
	if !ok {
		id = int32(len(x.everything))
		x.ids[v.Name] = id
		x.everything = append(x.everything, v)
		x.holder = append(x.holder, none)
	}
	return id
}

// layer finds how far each request is from an unserved one along volumes held
// by others, as far as the nearest free volume, and reports whether there is
// one to be reached.
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

// descend gives request i a volume along the layers, each edge tried at most
// once a round, and reports whether it could.
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
