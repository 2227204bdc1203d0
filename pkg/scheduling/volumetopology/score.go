// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// PreScore skips pods whose claims are all bound: all nodes that fit are equal.
func (p *Plugin) PreScore(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.Demand == nil || !s.Demand.HasUnboundClaims() {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score ranks the node by the utilization of its storage with the pod's claims.
func (p *Plugin) Score(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := stateOf(cycle)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if s.Demand == nil {
		return 0, nil
	}
	var buffer [4]volumecache.Usage
	return p.score.Of(p.cache.Usage(s.Demand, info.Node(), buffer[:0])), nil
}

// ScoreExtensions is nil: scores are already on the framework's scale.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
