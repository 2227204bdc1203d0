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
)

// Filter reports whether the pod's claims fit the node. It stores nothing; Score and
// Reserve compute the fit again.
func (p *Plugin) Filter(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.Demand == nil {
		return nil
	}
	reason := p.fits(s.Demand, info.Node())
	if reason.Code == match.Fits {
		return nil
	}
	code := fwk.UnschedulableAndUnresolvable
	if s.EvictionHelps(p.cache, info.Node(), podsOn(info), reason) {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code, reason.String())
}

// fits computes the fit, and measures the duration of some calls.
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

// RemovePod simulates the eviction of a pod from the node.
func (p *Plugin) RemovePod(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.Demand == nil {
		return nil
	}
	if freed := p.cache.Evictable(removed.GetPod()); len(freed) > 0 {
		s.Demand.SimulateEviction(info.Node().Name, freed)
	}
	return nil
}

// AddPod undoes RemovePod. The needs of pods nominated to the node are already withheld
// by PreFilter, on every node that shares them.
func (p *Plugin) AddPod(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.Demand != nil {
		s.Demand.UndoEviction(info.Node().Name, added.GetPod().UID)
	}
	return nil
}
