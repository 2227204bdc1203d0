// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
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
		err := verdict.all(ctx)
		return verdict, err
	}
	if _, bound := e.look(args.Pod); !bound {
		e.gate.awaitBinds(ctx, args.Pod.UID)
	}
	asked := e.gate.ask(args.Pod.UID, verdict.of.len())
	err := e.decide(ctx, args.Pod, verdict)
	if err != nil || verdict.any() {
		return verdict, err
	}
	seen, bound := e.look(args.Pod)
	if again := e.gate.refuse(asked); seen && (bound || !again) {
		return verdict, nil
	}
	bounded, done := e.gate.spend(ctx, e.gate.informerLag)
	defer done()
	for err == nil && !verdict.any() && e.gate.more(bounded, &asked) {
		verdict.forget()
		err = e.decide(ctx, args.Pod, verdict)
	}
	return verdict, err
}

// look reports whether the informers have shown the pod, its claims and their
// volumes, and whether all claims are bound.
func (e *Extender) look(pod *v1.Pod) (seen, bound bool) {
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

// decide asks the engine about all nodes.
func (e *Extender) decide(ctx context.Context, pod *v1.Pod, verdict *verdict) error {
	begun, refusal, err := e.attempts.Begin(ctx, pod)
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
	held := e.holds.node(begun.Demand)
	asked := &asked{Attempt: begun, victims: evictable{of: e, mayGo: lower(pod)}}
	err = verdict.of.each(ctx, func(i int, name string, node *v1.Node) {
		switch {
		case node == nil:
			verdict.refuse(name, unknownNode, false)
		case held != "" && held != name:
			verdict.refuse(name, match.NodeNotSelected.String(), false)
		case e.judge(verdict, i, asked, node) && inflight != nil:
			e.cache.CapacityPools(begun.Demand, node, inflight.bytes)
		}
	})
	if err == nil && verdict.any() {
		e.letThrough(begun.Demand, inflight)
	}
	return err
}

// letThrough notes that the pod may get a node now, which is not known yet.
func (e *Extender) letThrough(d *volumecache.Demand, inflight *inflightPod) {
	if inflight != nil {
		e.inflight.add(inflight)
	}
	if e.binder != nil && d.HasUnboundClaims() {
		e.gate.expect(d.Pod().UID)
	}
}

// asked is what is asked about each node of a call.
type asked struct {
	attempt.Attempt
	victims evictable
}

// judge asks the engine about one node, and reports whether it is accepted.
func (e *Extender) judge(verdict *verdict, i int, asked *asked, node *v1.Node) bool {
	reason := e.cache.Fits(asked.Demand, node)
	if reason.Code == match.Fits {
		verdict.accept(i)
		return true
	}
	resolvable := (asked.Awaiting || asked.victims.any(node.Name)) &&
		e.attempts.EvictionHelps(asked.Attempt, node, asked.victims.on(node.Name), reason)
	verdict.refuse(node.Name, reason.String(), resolvable)
	return false
}

// verdict collects the answer for all nodes.
type verdict struct {
	of               candidates
	accepted         *[]int
	failed, hopeless *[]refusal
	err              string // of the call as a whole
}

// refusal is why a node will not do.
type refusal struct{ node, why string }

func newVerdict(of candidates) *verdict {
	return &verdict{of: of, accepted: placeLists.get(), failed: refusalLists.get(), hopeless: refusalLists.get()}
}

// failedVerdict says that the call has failed.
func failedVerdict(err error) *verdict {
	v := newVerdict(candidates{})
	v.err = err.Error()
	return v
}

// free gives memory back, once the answer has been written.
func (v *verdict) free() {
	v.of.free()
	placeLists.put(v.accepted)
	refusalLists.put(v.failed)
	refusalLists.put(v.hopeless)
}

func (v *verdict) accept(i int) { *v.accepted = append(*v.accepted, i) }

func (v *verdict) any() bool { return len(*v.accepted) > 0 }

// refuse notes why a node will not do, and whether preemption might change that.
func (v *verdict) refuse(node, why string, resolvable bool) {
	list := v.hopeless
	if resolvable {
		list = v.failed
	}
	*list = append(*list, refusal{node, why})
}

// forget makes it as new.
func (v *verdict) forget() {
	*v.accepted, *v.failed, *v.hopeless = (*v.accepted)[:0], (*v.failed)[:0], (*v.hopeless)[:0]
}

func (v *verdict) all(ctx context.Context) error {
	return v.of.each(ctx, func(i int, name string, node *v1.Node) {
		if node == nil {
			v.refuse(name, unknownNode, false)
			return
		}
		v.accept(i)
	})
}

// none refuses all nodes.
func (v *verdict) none(ctx context.Context, why string) error {
	why = cut(why, v.of.len())
	return v.of.each(ctx, func(_ int, name string, _ *v1.Node) { v.refuse(name, why, false) })
}

const (
	// longReason and shortReason are what is kept of a refusal that is written for
	// each node, in bytes: it may tell a claim's name, of which the API server
	// bounds the length only for claims that exist, to 253.
	longReason, shortReason = 1 << 10, 64
	// allReasons is what the refusals of a call may take, unless they are short.
	allReasons = 16 << 20
)

// cut shortens a refusal that is written for so many nodes.
func cut(why string, nodes int) string {
	most := max(shortReason, min(longReason, allReasons/max(1, nodes)))
	if len(why) <= most {
		return why
	}
	return strings.ToValidUTF8(why[:most], "") + "…"
}
