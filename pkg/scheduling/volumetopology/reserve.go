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

// Reserve chooses volumes and capacity on the node and reserves them. It may be repeated
// on one cycle state, with or without Unreserve.
func (p *Plugin) Reserve(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	s.plan = nil
	if s.Demand == nil || !s.Demand.HasUnboundClaims() {
		return nil
	}
	begin := time.Now()
	plan, reason := p.cache.Reserve(s.Demand, nodeName)
	metrics.ObserveReserve(time.Since(begin))
	if reason.Code != match.Fits {
		// The node fitted in this cycle: something has changed since. After an error the
		// pod is retried soon, without waiting for an event.
		return fwk.AsStatus(fmt.Errorf("volumes on node %q changed while the pod was being scheduled: %s", nodeName, reason.Code))
	}
	s.plan = plan
	klog.FromContext(ctx).V(4).Info("Reserved volumes", logkeys.Pod, klog.KObj(pod), logkeys.Node, klog.KRef("", nodeName),
		"bindings", len(plan.Bindings), "provisions", len(plan.Provisions))
	return nil
}

// Unreserve releases what Reserve reserved and is not bound.
func (p *Plugin) Unreserve(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, _ string) {
	p.cache.Release(pod.UID)
	if s, err := stateOf(cycle); err == nil {
		s.plan = nil
	}
}
