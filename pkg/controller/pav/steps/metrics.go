// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"k8s.io/apimachinery/pkg/api/meta"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

// Failing is what fails of an object, and why; the zero value if nothing does.
type Failing struct{ Operation, Reason string }

// State is what metrics count of an object.
type State struct {
	Phase string
	Failing
}

// Add returns the function that counts states, by phase with phases and by failure.
func Add(phases func(string, float64)) func(State, float64) {
	return func(state State, more float64) {
		phases(state.Phase, more)
		if state.Operation != "" {
			metrics.AddPavFailing(state.Operation, state.Reason, more)
		}
	}
}

// ReasonOf returns the reason of the last failure.
func ReasonOf(failure *stowage.PavVolumeError) string {
	if failure == nil {
		return ""
	}
	return failure.Reason
}

// tally counts provisioners by state.
func (s *Steps) tally() error {
	metrics.RegisterController()
	return loop.Tally(s.Provisioners, func(p *stowage.PavProvisioner) string {
		accepted := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionAccepted)
		switch {
		case p.DeletionTimestamp != nil:
			return "Deleting"
		case accepted == nil:
			return "Pending"
		default:
			return accepted.Reason
		}
	}, metrics.AddPavProvisioners)
}

// ObserveResult records the outcome of a helper pod, if a status has its result first after a change.
// pod is the pod before; nil if it did not exist.
func (s *Steps) ObserveResult(before, after *stowage.PavVolumeStep, pod *podstep.Pod) {
	if before == nil || before.Result != nil || after == nil || after.Result == nil {
		return
	}
	outcome := metrics.PavInterrupted
	switch {
	case after.Result.Succeeded:
		outcome = metrics.PavSucceeded
	case pod != nil && pod.Result != nil:
		outcome = metrics.PavFailed
	}
	s.ObserveOutcome(before, outcome)
}

// ObserveOutcome records the outcome of the helper pod of a step.
func (s *Steps) ObserveOutcome(step *stowage.PavVolumeStep, outcome string) {
	metrics.ObservePavStep(string(step.Name), outcome, max(0, s.Now().Sub(step.StartTime.Time)))
}
