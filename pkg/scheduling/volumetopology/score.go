// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// PreScore skips pods whose claims are all bound: every node that fits is as
// good as another.
func (p *Plugin) PreScore(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.demand == nil || !s.demand.HasUnboundClaims() {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score ranks the node by how full the pod's claims would make its storage.
func (p *Plugin) Score(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := stateOf(cycle)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if s.demand == nil {
		return 0, nil
	}
	var room [4]volumecache.Usage
	return p.score.Of(p.cache.Usage(s.demand, info.Node(), room[:0])), nil
}

// ScoreExtensions is nil: scores are on the framework's scale already.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
