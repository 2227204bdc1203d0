// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/volume/match"
	"stowage.dev/stowage/pkg/volumecache"
)

// Filter tells whether the pod's claims fit the node. It stores nothing; Score
// and Reserve ask again.
func (p *Plugin) Filter(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
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
	if !s.awaiting && p.evictionHelps(s, pod, info, reason.Code) {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code, reason.Code.String())
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

// evictionHelps tells whether the claims would fit if all pods of lower
// priority left the node and their ephemeral volumes came back.
func (p *Plugin) evictionHelps(s *state, pod *v1.Pod, info fwk.NodeInfo, why match.ReasonCode) bool {
	if why != match.NoVolume && why != match.NotEnoughSpace || !p.cache.AnyEvictable() {
		return false
	}
	node, demand := info.Node(), s.demand
	for _, other := range info.GetPods() {
		if corev1helpers.PodPriority(other.GetPod()) >= corev1helpers.PodPriority(pod) {
			continue
		}
		if freed := p.cache.Evictable(other.GetPod()); len(freed) > 0 {
			if demand == s.demand {
				demand = demand.Clone()
			}
			demand.Evict(node.Name, freed)
		}
	}
	return demand != s.demand && p.cache.Fits(demand, node).Code == match.Fits
}

// RemovePod reckons with what evicting a pod from the node would free.
func (p *Plugin) RemovePod(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.demand == nil {
		return nil
	}
	if freed := p.cache.Evictable(removed.GetPod()); len(freed) > 0 {
		s.demand.Evict(info.Node().Name, freed)
		p.cache.Consider(pod.UID, info.Node().Name, freed)
	}
	return nil
}

// AddPod takes back what RemovePod reckoned with. A pod that was nominated to
// the node has no volumes yet.
func (p *Plugin) AddPod(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.demand != nil {
		s.demand.Spare(info.Node().Name, added.GetPod().UID)
	}
	return nil
}
