// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
)

const stateKey fwk.StateKey = "stowage.dev/" + Name

// state is what a scheduling cycle keeps between extension points.
type state struct {
	// Attempt has no Demand for a pod without claims.
	attempt.Attempt
	// rejected: PreFilter rejected the pod.
	rejected bool
	// plan is what Reserve decided to write.
	plan *plan.Plan
}

// Clone returns a state that a dry run may change.
func (s *state) Clone() fwk.StateData {
	clone := *s
	if s.Demand != nil {
		clone.Demand = s.Demand.Clone()
	}
	return &clone
}

var errNoState = errors.New("PreFilter has not run for this pod")

func stateOf(cycle fwk.CycleState) (*state, error) {
	data, err := cycle.Read(stateKey)
	if err != nil {
		return nil, errNoState
	}
	s, ok := data.(*state)
	if !ok {
		return nil, errNoState
	}
	return s, nil
}

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
	chosen, reason := p.cache.Reserve(s.Demand, nodeName)
	metrics.ObserveReserve(time.Since(begin))
	if reason.Code != match.Fits {
		// The node fitted in this cycle: something has changed since. After an error the
		// pod is retried soon, without waiting for an event.
		return fwk.AsStatus(fmt.Errorf("volumes on node %q changed while the pod was being scheduled: %s", nodeName, reason.Code))
	}
	s.plan = chosen
	klog.FromContext(ctx).V(4).Info("Reserved volumes", logkeys.Pod, klog.KObj(pod), logkeys.Node, klog.KRef("", nodeName),
		"bindings", len(chosen.Bindings), "provisions", len(chosen.Provisions))
	return nil
}

// Unreserve releases what Reserve reserved and is not bound.
func (p *Plugin) Unreserve(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, _ string) {
	p.cache.Release(pod.UID)
	if s, err := stateOf(cycle); err == nil {
		s.plan = nil
	}
}

// preFlight reports whether PreBind has anything to write.
func preFlight(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.plan == nil || s.plan.Empty() {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// PreBind writes what Reserve decided. It returns when every claim is bound, or with the
// first failure.
func (p *Plugin) PreBind(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.plan == nil {
		return nil
	}
	if err := p.binder.Bind(ctx, s.plan); err != nil {
		return fwk.AsStatus(err)
	}
	// The API objects replace the reservation.
	p.cache.Release(pod.UID)
	return nil
}
