// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
)

// PreFilter compiles the pod's claims for the cycle and narrows the nodes if that helps.
func (p *Plugin) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Spec.NodeName != "" || !claims.Any(pod) {
		// Also a running pod whose resize is deferred: its volumes are already on its
		// node (KEP-1287).
		cycle.Write(stateKey, &state{})
		return nil, fwk.NewStatus(fwk.Skip)
	}
	begun, refusal, err := attempt.Begin(ctx, p.cache, pod)
	switch {
	case err != nil:
		return nil, fwk.AsStatus(err)
	case refusal != nil:
		cycle.Write(stateKey, &state{rejected: true})
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refusal.Error())
	}
	s := &state{Attempt: begun}
	cycle.Write(stateKey, s)
	nodes, reason := p.cache.Nodes(begun.Demand)
	switch {
	case reason.Code != match.Fits:
		s.rejected = true
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason.Code.String())
	case nodes == nil:
		return nil, nil
	}
	return &fwk.PreFilterResult{NodeNames: nodes}, nil
}

// PreFilterExtensions is for preemption, which simulates evictions.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }
