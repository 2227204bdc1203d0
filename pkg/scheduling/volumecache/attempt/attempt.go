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

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// Attempt is a pod's claims, compiled for one cycle.
type Attempt struct {
	Demand *volumecache.Demand
	// Awaiting: what the pod needs on the node that it is nominated to is being reclaimed,
	// so pods of other nodes must not be preempted.
	Awaiting bool
}

// Begin compiles the pod's claims, once the volume cache has observed what existed at the
// start. A refusal means that no node fits for now, with a message for the pod's user. An
// error means that this cannot be decided. Begin sends no request to the API server: the
// scheduling loop is serial and must not wait for one.
func Begin(ctx context.Context, cache *volumecache.Cache, pod *v1.Pod) (at Attempt, refusal, err error) {
	if !cache.Ready(ctx.Done()) {
		return at, nil, fmt.Errorf("waiting for volumes to be indexed: %w", context.Cause(ctx))
	}
	demand, why, unclear := cache.Demand(pod)
	switch {
	case unclear != nil:
		return at, unclear, nil
	case why != nil:
		return at, why, nil
	}
	cache.Withhold(demand)
	return Attempt{Demand: demand, Awaiting: cache.Awaits(demand)}, nil, nil
}

// EvictionHelps is [volumecache.Cache.EvictionHelps] for the attempt. While the pod's
// volumes are being reclaimed, only evictions on its nominated node help.
func (at Attempt) EvictionHelps(cache *volumecache.Cache, node *v1.Node, pods iter.Seq[*v1.Pod], why match.Reason) bool {
	if at.Awaiting {
		// Otherwise the scheduler would clear the nomination.
		return node.Name == at.Demand.Pod().Status.NominatedNodeName
	}
	return cache.EvictionHelps(at.Demand, node, pods, why)
}
