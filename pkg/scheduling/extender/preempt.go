// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"iter"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
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
	begun, refusal, err := attempt.Begin(ctx, e.cache, args.Pod)
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

// ephemeralOn is the index of the pods with ephemeral volumes, whose eviction frees
// volumes, by "PRIORITY/NODE". Of thousands of rejected nodes few have such pods of lower
// priority, and no other pods are read.
const ephemeralOn = "stowage.dev/ephemeral-on"

// indexEphemeral is the index function of ephemeralOn.
func indexEphemeral(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" || !claims.AnyEphemeral(pod) {
		return nil, nil
	}
	return []string{strconv.Itoa(int(corev1helpers.PodPriority(pod))) + "/" + pod.Spec.NodeName}, nil
}

// evictable finds the pods with ephemeral volumes and an evictable priority, by node. It
// is for one call and lists lazily; not safe for concurrent use.
type evictable struct {
	of       *Extender
	mayEvict func(priority int32) bool
	keys     map[string][]string // of ephemeralOn, by node; nil: not listed
}

// lowerThan returns which priorities are lower than the pod's.
func lowerThan(pod *v1.Pod) func(priority int32) bool {
	own := corev1helpers.PodPriority(pod)
	return func(priority int32) bool { return priority < own }
}

// any reports whether on yields anything.
func (v *evictable) any(node string) bool { return len(v.list()[node]) > 0 }

// on yields the pods on a node.
func (v *evictable) on(node string) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, key := range v.list()[node] {
			found, err := v.of.indexed.ByIndex(ephemeralOn, key)
			if err != nil {
				return // cannot happen: New added the index
			}
			for _, object := range found {
				if pod, ok := object.(*v1.Pod); ok && !yield(pod) {
					return
				}
			}
		}
	}
}

func (v *evictable) list() map[string][]string {
	if v.keys != nil {
		return v.keys
	}
	v.keys = map[string][]string{}
	if !v.of.cache.AnyEvictable() {
		return v.keys
	}
	for _, key := range v.of.indexed.ListIndexFuncValues(ephemeralOn) {
		text, node, _ := strings.Cut(key, "/")
		if priority, err := strconv.ParseInt(text, 10, 32); err == nil && v.mayEvict(int32(priority)) {
			v.keys[node] = append(v.keys[node], key)
		}
	}
	return v.keys
}
