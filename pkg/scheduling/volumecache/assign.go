// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Podless is a claim that is bound without a pod.
type Podless struct {
	Claim *v1.PersistentVolumeClaim
	// Node must be able to use the volume; empty for any node that the class allows.
	Node string
	// Rejected are the nodes for which provisioning has failed.
	Rejected sets.Set[string]
}

// Assigned is what Assign has decided for a claim. All fields are zero if it has decided
// nothing because of its limit.
type Assigned struct {
	// Plan binds the claim; nil for none. Its volume or its bytes are reserved until Release
	// is called with the claim's UID.
	Plan *plan.Plan
	// Reason is why there is no plan, Err that the claim is invalid.
	Reason match.Reason
	Err    error
}

// Assign assigns volumes to claims of a class that are bound without a pod, which are in
// order of priority, and makes at most limit plans. It first releases what it has reserved for
// them, so it may be repeated. It needs Config.ByClass.
//
// A claim gets what is reserved for it, else a volume that names it, else a volume on its
// selected node is provisioned. Otherwise it gets a free volume that some existing node can
// use which the class allows (AssignInOrder), or one is provisioned on such a node: in the
// storage with the most capacity left, if the driver reports capacity. If more are to be
// provisioned than limit allows, namespaces take turns.
func (c *Cache) Assign(object *storagev1.StorageClass, of []Podless, limit int) ([]Assigned, error) {
	if !c.free.byClass {
		return nil, errors.New("volumecache: Assign needs Config.ByClass")
	}
	c.backlog.catchUp(c.mu.RLocker())
	c.expireDue()
	b := &batch{
		Cache: c, of: slices.Clone(of), assigned: make([]Assigned, len(of)), pending: make([]*pending, len(of)), limit: limit,
		group: group{class: &class{name: object.Name, object: object}}, admitted: map[*segment]bool{},
	}
	for i := range of {
		request, err := c.request(of[i].Claim)
		if err != nil {
			b.assigned[i].Err = err
			continue
		}
		b.group.pending = append(b.group.pending, pending{
			Request: request, key: keyOf(of[i].Claim), selected: c.selectedNode(claims.Delayed{Claim: of[i].Claim, Class: object}),
		})
	}
	if err := c.prepare(&b.group); err != nil {
		return nil, err
	}
	b.solution = c.scratch.Get().(*solution)
	defer c.putScratch(b.solution)
	c.mu.Lock()
	defer c.mu.Unlock()
	b.run()
	return b.assigned, nil
}

// AssignAnywhere assigns at most limit free volumes of a class, which need not exist, to requests in
// order of priority, whichever nodes can use the volumes. It needs Config.ByClass. A volume of the
// result is reserved until Release is called with the UID of the request's claim; nil is none.
func (c *Cache) AssignAnywhere(class string, requests []*match.Request, limit int) []*v1.PersistentVolume {
	volumes, ordered := make([]*v1.PersistentVolume, len(requests)), make([]match.Ordered, len(requests))
	for i, r := range requests {
		ordered[i].Request = r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.free.class[class]
	if entry == nil || entry.all.Len() == 0 {
		return volumes
	}
	stock := anywhere{&entry.all, ordered}
	for i, v := range match.AssignInOrder(ordered, stock, min(limit, entry.all.Len())) {
		if v != nil {
			volumes[i] = v.PV
			of := &pending{Request: requests[i], key: keyOf(requests[i].Claim)}
			c.reserved.reserveVolume(of, owner{uid: of.Claim.UID}, c.volume[v.Name])
		}
	}
	return volumes
}

// anywhere is the stock of AssignAnywhere.
type anywhere struct {
	all      *match.Pool
	requests []match.Ordered
}

var _ match.Stock = anywhere{}

// Cheapest is that of match.Stock.
func (a anywhere) Cheapest(i, k int, dst []*match.Volume) []*match.Volume {
	return a.all.Cheapest(a.requests[i].Request, k, dst)
}

// Serves is that of match.Stock.
func (a anywhere) Serves(i int, v *match.Volume) bool { return a.requests[i].Matches(v) }

// Take is that of match.Stock.
func (a anywhere) Take(v *match.Volume) { a.all.Remove(v) }

// Return is that of match.Stock.
func (a anywhere) Return(v *match.Volume) { a.all.Insert(v) }

// FreeOf returns how many volumes of a class are free and not reserved, and the bytes of the
// largest. It needs Config.ByClass.
func (c *Cache) FreeOf(class string) (volumes int, largest int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if entry := c.free.class[class]; entry != nil {
		return entry.all.Len(), entry.all.Largest()
	}
	return 0, 0
}

// batch is one call of Assign. It is the stock of AssignInOrder for the claims of open. The
// caller holds the lock.
type batch struct {
	*Cache
	*solution
	group    group
	of       []Podless
	pending  []*pending // nil for an invalid claim
	assigned []Assigned
	limit    int // plans to be made

	open     []int // claims without a choice made by earlier writes
	requests []match.Ordered
	// admitted is whether a node that the class allows can use volumes of a segment.
	admitted map[*segment]bool
	// skipped are volumes that no such node can use, removed from the class's while it runs.
	skipped []*match.Volume
	sites   *sites // nil: not computed yet
}

func (b *batch) run() {
	for i := range b.of {
		b.reserved.release(b.of[i].Claim.UID)
	}
	next := 0
	for i := range b.of {
		if b.assigned[i].Err != nil {
			continue
		}
		b.pending[i] = &b.group.pending[next]
		next++
		if !b.solveMade(i) {
			b.open = append(b.open, i)
			b.requests = append(b.requests, match.Ordered{Request: b.pending[i].Request, Node: b.of[i].Node})
		}
	}
	served, decided := match.AssignInOrder(b.requests, b, b.limit), 0
	for _, v := range b.skipped {
		b.group.class.all.Insert(v)
	}
	for at, v := range served {
		if v != nil {
			decided = at + 1
			b.bindings = append(b.bindings[:0], binding{b.pending[b.open[at]], v})
			b.made(b.open[at], b.of[b.open[at]].Node)
		}
	}
	if b.limit > 0 {
		decided = len(served)
	}
	var unserved []int
	for at, v := range served[:decided] {
		if v == nil {
			unserved = append(unserved, b.open[at])
		}
	}
	if len(unserved) > b.limit { // so that the claims of one namespace do not delay those of all others
		unserved = claims.InTurn(unserved, func(i int) string { return b.of[i].Claim.Namespace })
	}
	for _, i := range unserved {
		b.provide(i)
	}
}

// solveMade decides on a claim without a choice, as for pods, and reports whether it is one.
func (b *batch) solveMade(i int) bool {
	p, node := b.pending[i], b.of[i].Node
	if p.selected != "" {
		if node != "" && node != p.selected {
			b.assigned[i].Reason = match.Reason{Code: match.NodeNotSelected, Claim: p.Claim.Name}
			return true
		}
		node = p.selected
	}
	at, exists := b.locationNamed(node)
	if !exists {
		b.assigned[i].Reason = match.Reason{Code: match.NodeConflict, Claim: p.Claim.Name}
		return true
	}
	s := b.solution
	s.open, s.bindings, s.provisions = s.open[:0], s.bindings[:0], s.provisions[:0]
	reason := b.solveFixed(s, &b.group, p, at)
	switch {
	case reason.Code != match.Fits:
		b.assigned[i].Reason = reason
	case len(s.open) > 0:
		return false
	case b.limit > 0:
		b.made(i, node)
	}
	return true
}

// locationNamed returns the node of that name; anywhere for none.
func (b *batch) locationNamed(node string) (at location, exists bool) {
	if node == "" {
		return location{}, true
	}
	if entry := b.index.Node(node); entry != nil {
		return location{entry.Name, entry.Segments}, true
	}
	return location{}, false
}

// made reserves what the solution has for the claim and makes the plan.
func (b *batch) made(i int, node string) {
	p := &plan.Plan{Node: node}
	b.commit(b.solution, owner{uid: b.of[i].Claim.UID}, p)
	b.assigned[i].Plan = p
	b.bindings, b.provisions = b.bindings[:0], b.provisions[:0]
	b.limit--
}

// admits reports whether an existing node that the class allows can use the volume.
func (b *batch) admits(v *volume) bool {
	return b.admitsSegment(v.segment) || v.translated != nil && b.admitsSegment(v.translated)
}

func (b *batch) admitsSegment(of *segment) bool {
	admitted, known := b.admitted[of]
	if !known {
		allowed := b.group.class.allowed
		for node := range of.Nodes {
			if admitted = allowed == nil || allowed.Has(node); admitted {
				break
			}
		}
		b.admitted[of] = admitted
	}
	return admitted
}

var _ match.Stock = (*batch)(nil)

// Cheapest is that of match.Stock.
func (b *batch) Cheapest(at, k int, dst []*match.Volume) []*match.Volume {
	request := b.requests[at]
	if request.Node != "" {
		return b.cheapestOn(request, k, dst)
	}
	all, first := &b.group.class.all, len(b.skipped)
	for v := range all.Each(request.Request) {
		if !b.admits(b.volume[v.Name]) {
			b.skipped = append(b.skipped, v)
		} else if dst, k = append(dst, v), k-1; k == 0 {
			break
		}
	}
	for _, v := range b.skipped[first:] {
		all.Remove(v)
	}
	return dst
}

// cheapestOn is Cheapest for a request that is restricted to a node.
func (b *batch) cheapestOn(request match.Ordered, k int, dst []*match.Volume) []*match.Volume {
	at, _ := b.locationNamed(request.Node)
	begin := len(dst)
	for _, segment := range at.segments {
		if pool := poolOf(segment, b.group.class); pool != nil && b.admitsSegment(segment) {
			split := len(dst)
			dst = match.Merge(request.Request, k, pool.Cheapest(request.Request, k, dst), begin, split)
		}
	}
	return dst
}

// Serves is that of match.Stock.
func (b *batch) Serves(at int, v *match.Volume) bool {
	request := b.requests[at]
	if !request.Matches(v) {
		return false
	}
	on, _ := b.locationNamed(request.Node)
	return on.in(b.volume[v.Name].segment)
}

// Take is that of match.Stock.
func (b *batch) Take(v *match.Volume) { b.free.withdraw(b.volume[v.Name]) }

// Return is that of match.Stock.
func (b *batch) Return(v *match.Volume) { b.free.offer(b.volume[v.Name]) }
