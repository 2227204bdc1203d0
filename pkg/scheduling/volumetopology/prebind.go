// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBindPreFlight reports whether PreBind has anything to write.
func (p *Plugin) PreBindPreFlight(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	s, err := stateOf(cycle)
	if err != nil {
		return result, fwk.AsStatus(err)
	}
	if s.plan == nil || s.plan.Empty() {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes what Reserve decided. It returns when every claim is bound, or with the
// first failure.
func (p *Plugin) PreBind(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	s, err := stateOf(cycle)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.plan == nil || s.plan.Empty() {
		return nil
	}
	if err := p.binder.Bind(ctx, s.plan); err != nil {
		return fwk.AsStatus(err)
	}
	// The API objects replace the reservation.
	p.cache.Release(pod.UID)
	return nil
}
