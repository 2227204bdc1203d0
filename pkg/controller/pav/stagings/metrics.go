// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package stagings

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/metrics"
)

// stateOf returns what metrics count of a staging.
func stateOf(s *stowage.PavStaging) steps.State {
	return steps.State{Phase: string(cmp.Or(s.Status.Phase, stowage.PavStagingPending)), Failing: failingOf(&s.Status)}
}

// failingOf returns what fails of a staging. A new attempt does not change it until it succeeds.
func failingOf(s *stowage.PavStagingStatus) steps.Failing {
	unstageable, staged := meta.FindStatusCondition(s.Conditions, stowage.ConditionUnstageable), meta.FindStatusCondition(s.Conditions, stowage.ConditionStaged)
	waits := staged != nil && staged.Status == metav1.ConditionFalse && staged.Message != "" && staged.Reason != string(rules.Unrequested)
	switch {
	case unstageable != nil:
		return steps.Failing{Operation: "unstage", Reason: unstageable.Reason}
	case s.UnstagingFailures > 0:
		return steps.Failing{Operation: "unstage", Reason: steps.ReasonOf(s.LastError)}
	case waits:
		return steps.Failing{Operation: "stage", Reason: staged.Reason}
	case s.Failures > 0:
		return steps.Failing{Operation: "stage", Reason: steps.ReasonOf(s.LastError)}
	default:
		return steps.Failing{}
	}
}

// observe records what a written status says first. That a staging pod is ready is its outcome; how it ends
// after that is none.
func (c *Controller) observe(s *situation, staging *stowage.PavStaging) {
	before, after := &s.Staging.Status, &staging.Status
	switch {
	case before.Step == nil:
	case before.Step.Name != stowage.PavStepStaging:
		c.ObserveResult(before.Step, after.Step, s.Pod)
	case before.Phase == stowage.PavStagingStaging && after.Phase == stowage.PavStagingStaged && before.Step.Result == nil:
		c.ObserveOutcome(before.Step, metrics.PavSucceeded)
	case before.Phase == stowage.PavStagingStaging:
		c.ObserveResult(before.Step, after.Step, s.Pod)
	}
}
