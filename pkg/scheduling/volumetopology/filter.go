// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
)

// Filter tells whether the pod's claims fit the node. It stores nothing; Score
// and Reserve ask again.
func (p *Plugin) Filter(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.demand == nil {
		return nil
	}
	reason := p.fits(s.demand, info.Node())
	if reason.Code == match.Fits {
		return nil
	}
	code := fwk.UnschedulableAndUnresolvable
	begun := attempt.Attempt{Demand: s.demand, Awaiting: s.awaiting}
	if p.attempts.EvictionHelps(begun, info.Node(), podsOn(info), reason) {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code, reason.String())
}

// fits asks the engine, and measures now and then how long that takes.
func (p *Plugin) fits(d *volumecache.Demand, node *v1.Node) match.Reason {
	if !metrics.Sampled() {
		return p.cache.Fits(d, node)
	}
	begin := time.Now()
	reason := p.cache.Fits(d, node)
	metrics.ObserveMatching(time.Since(begin))
	return reason
}

// podsOn yields the pods on a node.
func podsOn(info fwk.NodeInfo) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, other := range info.GetPods() {
			if !yield(other.GetPod()) {
				return
			}
		}
	}
}

// RemovePod reckons with what evicting a pod from the node would free.
func (p *Plugin) RemovePod(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.demand == nil {
		return nil
	}
	if freed := p.cache.Evictable(removed.GetPod()); len(freed) > 0 {
		s.demand.SimulateEviction(info.Node().Name, freed)
	}
	return nil
}

// AddPod takes back what RemovePod reckoned with. What a pod needs that is nominated to
// the node was withheld by PreFilter already, from any node that reaches it.
func (p *Plugin) AddPod(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.demand != nil {
		s.demand.UndoEviction(info.Node().Name, added.GetPod().UID)
	}
	return nil
}
