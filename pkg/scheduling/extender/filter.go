// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
)

// unknownNode is the reason for nodes that the informer has not delivered yet, if the pod
// fits others.
const unknownNode = "node(s) were not known to the volume extender yet"

// filter returns which of the nodes the pod's claims fit. It reserves nothing. A node
// that does not fit is an entry of the answer, not an error. If none fits and some are
// unknown, that is an error: kube-scheduler retries after the pod's backoff, whereas no
// event of its own follows when the extender observes the node.
func (e *Extender) filter(ctx context.Context, args *extenderv1.ExtenderArgs) (*verdict, error) {
	if args.Pod == nil {
		return nil, errNoPod
	}
	verdict := newVerdict(e.candidates(args))
	err := e.answer(ctx, args.Pod, verdict)
	if err == nil && !verdict.any() && verdict.unknown > 0 {
		err = fmt.Errorf("no node fits, and %d of %d were not known to the volume extender yet", verdict.unknown, verdict.of.len())
	}
	return verdict, err
}

// answer fills in the verdict, and waits where the extender may be behind the scheduler.
func (e *Extender) answer(ctx context.Context, pod *v1.Pod, verdict *verdict) error {
	if !claims.Any(pod) {
		return verdict.all(ctx)
	}
	if _, bound := e.observed(pod); !bound {
		e.gate.awaitBinds(ctx, pod.UID)
	}
	q := e.gate.newQuery(pod.UID, verdict.of.len())
	err := e.decide(ctx, pod, verdict)
	if err != nil || verdict.any() {
		return err
	}
	seen, bound := e.observed(pod)
	if again := e.gate.recordRejection(q); seen && verdict.unknown == 0 && (bound || !again) {
		return nil
	}
	bounded, done := e.gate.startWait(ctx, e.gate.informerLag)
	defer done()
	for err == nil && !verdict.any() && e.gate.waitForChange(bounded, &q) {
		verdict.reset()
		err = e.decide(ctx, pod, verdict)
	}
	return err
}

// observed reports whether the informers have delivered the pod, its claims and their
// volumes, and whether all claims are bound.
func (e *Extender) observed(pod *v1.Pod) (seen, bound bool) {
	seen = e.cache.PodExists(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID)
	bound = true
	for use := range claims.Used(pod) {
		claim := e.cache.Claim(pod.Namespace, use.Name)
		if claim == nil || claim.Spec.VolumeName == "" {
			seen, bound = seen && claim != nil, false
			continue
		}
		seen = seen && e.cache.Volume(claim.Spec.VolumeName) != nil
	}
	return seen, bound
}

// decide evaluates all nodes.
func (e *Extender) decide(ctx context.Context, pod *v1.Pod, verdict *verdict) error {
	begun, refusal, err := attempt.Begin(ctx, e.cache, pod)
	switch {
	case err != nil:
		return err
	case refusal != nil:
		return verdict.none(ctx, refusal.Error())
	}
	var inflight *inflightPod
	if e.inflight != nil {
		inflight = e.inflight.begin(e, begun.Demand)
	}
	pinned := e.pins.node(begun.Demand)
	at := &evaluation{Attempt: begun, victims: evictable{of: e, mayEvict: lowerThan(pod)}}
	err = verdict.of.each(ctx, func(i int, name string, node *v1.Node) {
		switch {
		case node == nil:
			verdict.rejectUnknown(name)
		case pinned != "" && pinned != name:
			verdict.reject(name, match.NodeNotSelected.String(), false)
		case e.evaluate(verdict, i, at, node) && inflight != nil:
			e.cache.CapacityPools(begun.Demand, node, inflight.bytes)
		}
	})
	if err == nil && verdict.any() {
		// The node of the pod is not known yet.
		if inflight != nil {
			e.inflight.add(inflight)
		}
		if e.binder != nil && begun.Demand.HasUnboundClaims() {
			e.gate.expectBind(pod.UID)
		}
	}
	return err
}

// evaluation is the part of a call that is the same for all nodes.
type evaluation struct {
	attempt.Attempt
	victims evictable
}

// evaluate evaluates one node, and reports whether it is accepted.
func (e *Extender) evaluate(verdict *verdict, i int, at *evaluation, node *v1.Node) bool {
	reason := e.cache.Fits(at.Demand, node)
	if reason.Code == match.Fits {
		verdict.accept(i)
		return true
	}
	resolvable := (at.Awaiting || at.victims.any(node.Name)) &&
		at.EvictionHelps(e.cache, node, at.victims.on(node.Name), reason)
	verdict.reject(node.Name, reason.String(), resolvable)
	return false
}

// verdict collects the answer for all nodes.
type verdict struct {
	of                   candidates
	accepted             *[]int
	failed, unresolvable *[]rejection
	unknown              int    // nodes
	err                  string // of the call as a whole
}

// rejection is why a node does not fit.
type rejection struct{ node, why string }

func newVerdict(of candidates) *verdict {
	return &verdict{of: of, accepted: indexLists.get(), failed: rejectionLists.get(), unresolvable: rejectionLists.get()}
}

// release returns memory to its pools, after the answer has been written.
func (v *verdict) release() {
	v.of.release()
	indexLists.put(v.accepted)
	rejectionLists.put(v.failed)
	rejectionLists.put(v.unresolvable)
}

func (v *verdict) accept(i int) { *v.accepted = append(*v.accepted, i) }

func (v *verdict) any() bool { return len(*v.accepted) > 0 }

// reject records why a node does not fit, and whether preemption might help.
func (v *verdict) reject(node, why string, resolvable bool) {
	list := v.unresolvable
	if resolvable {
		list = v.failed
	}
	*list = append(*list, rejection{node, why})
}

func (v *verdict) rejectUnknown(node string) {
	v.unknown++
	v.reject(node, unknownNode, false)
}

// reset removes all results.
func (v *verdict) reset() {
	v.unknown = 0
	*v.accepted, *v.failed, *v.unresolvable = (*v.accepted)[:0], (*v.failed)[:0], (*v.unresolvable)[:0]
}

func (v *verdict) all(ctx context.Context) error {
	return v.of.each(ctx, func(i int, name string, node *v1.Node) {
		if node == nil {
			v.rejectUnknown(name)
			return
		}
		v.accept(i)
	})
}

// none rejects all nodes.
func (v *verdict) none(ctx context.Context, why string) error {
	why = truncate(why, v.of.len())
	return v.of.each(ctx, func(_ int, name string, _ *v1.Node) { v.reject(name, why, false) })
}

const (
	// maxReason and minReason bound the bytes of a reason that is repeated for each node:
	// it may contain a claim's name, whose length the API server bounds, to 253, only for
	// existing claims.
	maxReason, minReason = 1 << 10, 64
	// reasonBudget bounds the bytes of all reasons of a call, minReason permitting.
	reasonBudget = 16 << 20
)

// truncate shortens a reason that is repeated for this many nodes.
func truncate(why string, nodes int) string {
	return stowage.CutBytes(why, max(minReason, min(maxReason, reasonBudget/max(1, nodes))))
}

// candidates are the nodes of a call: their names, or the objects if the scheduler's
// configuration has nodeCacheCapable: false.
type candidates struct {
	e     *Extender
	names []string
	nodes []v1.Node
	full  bool
	list  *[]string // the pooled list that names refers to
}

// checkEvery is how many nodes are evaluated between checks of the context.
const checkEvery = 64

func (e *Extender) candidates(args *extenderv1.ExtenderArgs) candidates {
	c := candidates{e: e}
	switch {
	case args.NodeNames != nil:
		c.names, c.list = *args.NodeNames, args.NodeNames
	case args.Nodes != nil:
		c.nodes, c.full = args.Nodes.Items, true
	}
	return c
}

// release returns the list of names to its pool. It must not be used afterwards.
func (c candidates) release() { nameLists.put(c.list) }

func (c candidates) len() int { return len(c.names) + len(c.nodes) }

// each calls f with each node, nil if unknown. It returns the cause if ctx ends first.
func (c candidates) each(ctx context.Context, f func(i int, name string, node *v1.Node)) error {
	var known [checkEvery]*v1.Node
	for i := range c.len() {
		at := i % checkEvery
		if at == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.full {
			f(i, c.nodes[i].Name, &c.nodes[i])
			continue
		}
		if at == 0 {
			next := c.names[i:min(i+checkEvery, len(c.names))]
			c.e.cache.NodesNamed(next, known[:len(next)])
		}
		f(i, c.names[i], known[at])
	}
	return nil
}

// errNoPod means that a call has no pod.
var errNoPod = malformed(errors.New("it has no Pod"))
