// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// Reserve chooses volumes and capacity on the node and takes them out of what
// other pods see. It may be repeated on one cycle state, with Unreserve or
// without.
func (p *Plugin) Reserve(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	s.plan = nil
	if s.demand == nil || !s.demand.HasUnboundClaims() {
		return nil
	}
	begin := time.Now()
	plan, reason := p.cache.Reserve(s.demand, nodeName)
	metrics.ObserveReserve(time.Since(begin))
	if reason.Code != match.Fits {
		// The node fitted in this cycle: something changed in between. An error
		// has the pod retried soon, without waiting for an event.
		return fwk.AsStatus(fmt.Errorf("volumes on node %q changed while the pod was being scheduled: %s", nodeName, reason.Code))
	}
	s.plan = plan
	klog.FromContext(ctx).V(4).Info("Reserved volumes", logkeys.Pod, klog.KObj(pod), logkeys.Node, klog.KRef("", nodeName),
		"bindings", len(plan.Bindings), "provisions", len(plan.Provisions))
	return nil
}

// Unreserve gives back what Reserve took and has not been bound.
func (p *Plugin) Unreserve(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, _ string) {
	p.cache.Release(pod.UID)
	if s, err := stateOf(cycle); err == nil {
		s.plan = nil
	}
}
