// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/volume/claims"
	"stowage.dev/stowage/pkg/volume/match"
	"stowage.dev/stowage/pkg/volumecache"
	"stowage.dev/stowage/pkg/volumecache/attempt"
)

// unknownNode is the reason for nodes that the extender has not seen. It comes to
// know them, and any event has the pod tried again.
const unknownNode = "node(s) were not known to the volume extender yet"

// filter tells which of the nodes the pod's claims fit. It reserves nothing. A
// node that does not fit is an entry of the answer and never an error.
func (e *Extender) filter(ctx context.Context, args *extenderv1.ExtenderArgs) (*verdict, error) {
	if args.Pod == nil {
		return nil, errNoPod
	}
	verdict := newVerdict(e.candidates(args))
	if !claims.Any(args.Pod) {
		return verdict.all(ctx)
	}
	if e.pace != nil {
		e.pace.await(ctx, args.Pod.UID)
	}
	begun, refusal, err := e.attempts.Begin(ctx, args.Pod)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return verdict.none(ctx, refusal.Error())
	}
	var flight *flight
	if e.flights != nil {
		flight = e.flights.begin(e, begun.Demand)
	}
	held := e.holds.node(begun.Demand)
	err = verdict.of.each(ctx, func(i int, name string, node *v1.Node) {
		switch {
		case node == nil:
			verdict.refuse(name, unknownNode, false)
		case held != "" && held != name:
			verdict.refuse(name, match.NodeNotSelected.String(), false)
		default:
			e.judge(verdict, i, begun, node)
		}
	})
	if err != nil {
		return nil, err
	}
	if verdict.any() {
		e.letThrough(begun.Demand, flight)
	}
	return verdict, nil
}

// letThrough notes that the pod may get a node now, which is not known yet.
func (e *Extender) letThrough(d *volumecache.Demand, flight *flight) {
	if flight != nil {
		e.flights.add(flight)
	}
	if e.pace != nil && d.Waits() {
		e.pace.expect(d.Pod().UID)
	}
}

// judge asks the engine about one node.
func (e *Extender) judge(verdict *verdict, i int, begun attempt.Attempt, node *v1.Node) {
	reason := e.cache.Fits(begun.Demand, node)
	if reason.Code == match.Fits {
		verdict.accept(i)
		return
	}
	resolvable := e.attempts.EvictionHelps(begun, node, e.podsOn(node.Name), reason)
	verdict.refuse(node.Name, reason.Code.String(), resolvable)
}

// verdict collects the answer for all nodes.
type verdict struct {
	of               candidates
	accepted         []int
	failed, hopeless []refusal
	err              string // of the call as a whole
}

// refusal is why a node will not do.
type refusal struct{ node, why string }

func newVerdict(of candidates) *verdict { return &verdict{of: of} }

func (v *verdict) accept(i int) {
	if v.accepted == nil {
		v.accepted = make([]int, 0, v.of.len())
	}
	v.accepted = append(v.accepted, i)
}

func (v *verdict) any() bool { return len(v.accepted) > 0 }

// refuse notes why a node will not do, and whether preemption might change that.
func (v *verdict) refuse(node, why string, resolvable bool) {
	list := &v.hopeless
	if resolvable {
		list = &v.failed
	}
	if *list == nil {
		*list = make([]refusal, 0, v.of.len())
	}
	*list = append(*list, refusal{node, why})
}

func (v *verdict) all(ctx context.Context) (*verdict, error) {
	err := v.of.each(ctx, func(i int, name string, node *v1.Node) {
		if node == nil {
			v.refuse(name, unknownNode, false)
			return
		}
		v.accept(i)
	})
	return v, err
}

func (v *verdict) none(ctx context.Context, why string) (*verdict, error) {
	err := v.of.each(ctx, func(_ int, name string, _ *v1.Node) { v.refuse(name, why, false) })
	return v, err
}
