// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
)

// preempt keeps the nodes on which the pod's claims would fit without the victims and
// their ephemeral volumes. It does not change the victims: the scheduler's choice is the
// minimum for other resources, and a pod that would have to be evicted only for its
// volumes is never a candidate.
func (e *Extender) preempt(ctx context.Context, args *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error) {
	if args.Pod == nil {
		return nil, errNoPod
	}
	offered := e.victims(args)
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	keep := func(node string, of *victims) { result.NodeNameToMetaVictims[node] = of.meta }
	if !claims.Any(args.Pod) {
		for node, of := range offered {
			keep(node, of)
		}
		return result, nil
	}
	begun, refusal, err := e.attempts.Begin(ctx, args.Pod)
	if err != nil || refusal != nil || begun.Awaiting {
		return result, err // evictions do not help a rejected pod
	}
	for node, of := range offered {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if e.fitsWithout(begun, node, of) {
			keep(node, of)
		}
	}
	return result, nil
}

// victims are the pods to evict from one node.
type victims struct {
	meta *extenderv1.MetaVictims
	pods []*v1.Pod // those that free volumes
}

// victims converts the candidates of either form, without empty ones.
func (e *Extender) victims(args *extenderv1.ExtenderPreemptionArgs) map[string]*victims {
	found := map[string]*victims{}
	running := evictable{of: e, mayEvict: func(int32) bool { return true }} // the scheduler has checked the priorities
	for node, given := range args.NodeNameToMetaVictims {
		if given == nil {
			continue
		}
		of := &victims{meta: given}
		for pod := range running.on(node) {
			for _, victim := range given.Pods {
				if victim != nil && victim.UID == string(pod.UID) {
					of.pods = append(of.pods, pod)
				}
			}
		}
		found[node] = of
	}
	for node, given := range args.NodeNameToVictims {
		if given == nil || found[node] != nil {
			continue
		}
		of := &victims{meta: &extenderv1.MetaVictims{NumPDBViolations: given.NumPDBViolations}}
		for _, pod := range given.Pods {
			if pod != nil {
				of.pods = append(of.pods, pod)
				of.meta.Pods = append(of.meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
			}
		}
		found[node] = of
	}
	return found
}

// fitsWithout reports whether the claims fit the node without the victims.
func (e *Extender) fitsWithout(begun attempt.Attempt, name string, of *victims) bool {
	node, err := e.nodes.Get(name)
	if err != nil {
		return false
	}
	var freed []volumecache.Freed
	demand := begun.Demand
	for _, pod := range of.pods {
		freed = append(freed, e.cache.Evictable(pod)...)
	}
	if len(freed) > 0 {
		demand = demand.Clone()
		demand.SimulateEviction(name, freed)
	}
	return e.cache.Fits(demand, node).Code == match.Fits
}
