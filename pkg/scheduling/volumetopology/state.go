// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"errors"

	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

const stateKey fwk.StateKey = "stowage.dev/" + Name

// state is what a scheduling cycle keeps between extension points.
type state struct {
	// demand is nil for a pod without claims.
	demand *volumecache.Demand
	// refused: PreFilter refused the pod.
	refused bool
	// awaiting: what the pod needs on the node that it is nominated to is on its way
	// there, so no other node may be preempted on.
	awaiting bool
	// plan is what Reserve decided to write.
	plan *plan.Plan
}

// Clone gives a state that a dry run may change.
func (s *state) Clone() fwk.StateData {
	clone := *s
	if s.demand != nil {
		clone.demand = s.demand.Clone()
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
