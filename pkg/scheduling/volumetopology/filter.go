// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"fmt"
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
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

// PostFilter ends the attempt if evicting pods cannot help, before DefaultPreemption
// runs. It evicts nothing itself.
//
// While volumes that were freed for the pod are becoming available, it returns no result,
// which keeps the nomination and with it the CPU and memory of the victims. Otherwise the
// nomination would be lost: without candidates DefaultPreemption clears it, with
// candidates it evicts again.
//
// Evictions do not help a pod that PreFilter rejected. Plugins whose PreFilter did not
// run then lack their state, and their errors would appear in the pod's event.
func (p *Plugin) PostFilter(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s, err := stateOf(cycle)
	switch {
	case err != nil: // another plugin's PreFilter rejected the pod before ours ran
		return nil, fwk.NewStatus(fwk.Unschedulable)
	case s.Awaiting && !ruledOut(statuses, pod.Status.NominatedNodeName):
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("preemption: waiting for the storage of evicted pods to be available again on node %q", pod.Status.NominatedNodeName))
	case s.rejected:
		cleared := &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}
		return cleared, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// ruledOut reports whether another plugin rejects the node regardless of evictions.
func ruledOut(statuses fwk.NodeToStatusReader, node string) bool {
	status := statuses.Get(node)
	return status.Code() == fwk.UnschedulableAndUnresolvable && status.Plugin() != "" && status.Plugin() != Name
}
