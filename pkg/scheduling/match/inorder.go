// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

// Ordered is a request of a batch that AssignInOrder serves in order of priority.
type Ordered struct {
	*Request
	// Node restricts the request to volumes that can be used on the node; empty for any.
	Node string
}

// Stock is the free volumes of one class that AssignInOrder assigns.
type Stock interface {
	// Cheapest appends to dst the k volumes that serve request i best and are not taken, or
	// all if there are fewer, in the order of Less.
	Cheapest(i, k int, dst []*Volume) []*Volume
	// Serves reports whether request i may have the volume, which is taken.
	Serves(i int, v *Volume) bool
	// Take removes a volume from the stock, Return adds it again.
	Take(v *Volume)
	Return(v *Volume)
}

// AssignInOrder gives each request at most one volume and no volume to two requests. The
// requests are in order of priority: one is served if some assignment serves it and all that
// are served before it. After limit requests are served, no other is.
//
// Requests compete for the same volumes only if they agree in volume mode and
// VolumeAttributesClass. If those that compete also agree in access modes and node and
// have no selector, the assignment wastes the fewest bytes, then has the fewest access
// modes that were not requested. Else this holds for at most MaxExact of them.
//
// result[i] is nil if requests[i] is not served. The volumes of the result are taken from
// the stock. Equal arguments give equal results.
//
// Each request in turn gets the best volume that is left. That is optimal for requests whose
// volumes are ends of one ordered list. Let an augmenting path end at the free volume w. The
// request that moves to w may have w, which was free when it got a better volume or an equal
// one: its volume is not after w. So the request before it on the path, which moves to that
// volume, may have w too, and its volume is not after w either, and so on. An unserved request
// at the beginning of the path may therefore have w itself, but no volume was left for it. A
// path that begins with a volume does not make the assignment cheaper, for it is not after w.
//
// Other requests need augmenting paths. A search that fails has visited requests that may
// have no other volumes than each other's: later searches skip them. So all searches together
// compare n requests with at most n*limit + 2*limit³ volumes, whatever their outcome.
func AssignInOrder(requests []Ordered, stock Stock, limit int) []*Volume {
	a := &inOrder{requests: requests, stock: stock, result: make([]*Volume, len(requests))}
	groups, all := a.group()
	for i := 0; i < len(requests) && limit > 0; i++ {
		if a.serve(i, groups[i]) {
			limit--
		}
	}
	for _, r := range all {
		a.reduceWaste(r)
	}
	return a.result
}

type inOrder struct {
	requests []Ordered
	stock    Stock
	result   []*Volume
	solver   Solver
	one      [1]*Volume
}

// rivals are the requests that compete for the same volumes.
type rivals struct {
	shape shape // of the first
	mixed bool  // best fit alone is not optimal
	// served are the requests that are served, movable those of them that searches visit.
	served, movable []int
}

// shape is what requests agree in whose volumes are ends of one ordered list.
type shape struct {
	modes AccessModes
	node  string
}

// group returns the rivals of each request, and all of them.
func (a *inOrder) group() (groups, all []*rivals) {
	type key struct {
		block           bool
		attributesClass string
	}
	known := map[key]*rivals{}
	for _, request := range a.requests {
		k, s := key{request.Block, request.AttributesClass}, shape{request.AccessModes, request.Node}
		r := known[k]
		if r == nil {
			r = &rivals{shape: s}
			known[k], all = r, append(all, r)
		}
		r.mixed = r.mixed || s != r.shape || request.Selector != nil
		groups = append(groups, r)
	}
	return groups, all
}

func (a *inOrder) serve(i int, r *rivals) bool {
	if v := a.best(i); v != nil {
		a.stock.Take(v)
		a.result[i] = v
	} else if !r.mixed || !a.augment(i, r) {
		return false
	}
	if r.mixed {
		r.served, r.movable = append(r.served, i), append(r.movable, i)
	}
	return true
}

// best returns the best volume that is left for the request, nil if there is none.
func (a *inOrder) best(i int) *Volume {
	if found := a.stock.Cheapest(i, 1, a.one[:0]); len(found) > 0 {
		return found[0]
	}
	return nil
}

// augment serves the request with the volume of an earlier one, which gets another volume,
// and so on along the shortest path. It reports whether it found one.
func (a *inOrder) augment(first int, r *rivals) bool {
	queue, from := []int{first}, map[int]int{}
	left := r.movable // not visited
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		var rest []int
		for _, j := range left {
			if !a.stock.Serves(i, a.result[j]) {
				rest = append(rest, j)
				continue
			}
			from[j] = i
			if v := a.best(j); v != nil {
				a.shift(from, j, v)
				return true
			}
			queue = append(queue, j)
		}
		left = rest
	}
	r.movable = left
	return false
}

// shift gives volume v to request i, the volume of i to the request before it on the path,
// and so on.
func (a *inOrder) shift(from map[int]int, i int, v *Volume) {
	a.stock.Take(v)
	for {
		v, a.result[i] = a.result[i], v
		if v == nil {
			return
		}
		i = from[i]
	}
}

// reduceWaste assigns the served requests again if best fit alone is not optimal and an
// optimum can be computed.
func (a *inOrder) reduceWaste(r *rivals) {
	n := len(r.served)
	if !r.mixed || n < 2 || n > MaxExact {
		return
	}
	requests, candidates := make([]*Request, n), make([][]*Volume, n)
	for _, i := range r.served {
		a.stock.Return(a.result[i])
	}
	for at, i := range r.served {
		requests[at] = a.requests[i].Request
		candidates[at] = a.stock.Cheapest(i, Width(n), nil)
	}
	for at, v := range a.solver.Assign(requests, candidates) { // serves all, as before
		a.result[r.served[at]] = v
		a.stock.Take(v)
	}
}
