// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"errors"

	fwk "k8s.io/kube-scheduler/framework"

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
