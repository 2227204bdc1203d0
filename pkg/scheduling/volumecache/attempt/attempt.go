// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attempt begins a pod's scheduling cycle for the scheduler plugin and the
// extender: it compiles the pod's claims before nodes are filtered, and decides whether
// preemption can help.
package attempt

import (
	"context"
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// Attempts begins attempts on one volume cache. It sends no request to the API server:
// the scheduling loop is serial and must not wait for one. Safe for concurrent use.
type Attempts struct {
	cache *volumecache.Cache
}

// New returns Attempts on the volume cache.
func New(cache *volumecache.Cache) *Attempts {
	return &Attempts{cache: cache}
}

// Attempt is a pod's claims, compiled for one cycle.
type Attempt struct {
	Demand *volumecache.Demand
	// Awaiting: what the pod needs on the node that it is nominated to is being reclaimed,
	// so pods of other nodes must not be preempted.
	Awaiting bool
}

// Begin compiles the pod's claims, once the volume cache has observed what existed at the
// start. A refusal means that no node fits for now, with a message for the pod's user. An
// error means that this cannot be decided.
func (a *Attempts) Begin(ctx context.Context, pod *v1.Pod) (at Attempt, refusal, err error) {
	if !a.cache.Ready(ctx.Done()) {
		return at, nil, fmt.Errorf("waiting for volumes to be indexed: %w", context.Cause(ctx))
	}
	demand, why, unclear := a.cache.Demand(pod)
	switch {
	case unclear != nil:
		return at, unclear, nil
	case why != nil:
		return at, why, nil
	}
	a.cache.Withhold(demand)
	return Attempt{Demand: demand, Awaiting: a.cache.Awaits(demand)}, nil, nil
}

// EvictionHelps reports whether the claims, which do not fit the node for the
// given reason, would fit if all of its pods of lower priority were evicted and their
// ephemeral volumes reclaimed. It reads the pods only if they matter.
func (a *Attempts) EvictionHelps(at Attempt, node *v1.Node, pods iter.Seq[*v1.Pod], why match.Reason) bool {
	if at.Awaiting {
		// Otherwise the scheduler would clear the nomination.
		return node.Name == at.Demand.Pod().Status.NominatedNodeName
	}
	if why.Code != match.NoVolume && why.Code != match.NotEnoughSpace || !a.cache.AnyEvictable() {
		return false
	}
	priority, demand := corev1helpers.PodPriority(at.Demand.Pod()), at.Demand
	for other := range pods {
		if corev1helpers.PodPriority(other) >= priority {
			continue
		}
		if freed := a.cache.Evictable(other); len(freed) > 0 {
			if demand == at.Demand {
				demand = demand.Clone()
			}
			demand.SimulateEviction(node.Name, freed)
		}
	}
	return demand != at.Demand && a.cache.Fits(demand, node).Code == match.Fits
}
