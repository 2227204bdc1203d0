// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/metrics"
)

// stateOf returns what metrics count of a volume.
func stateOf(v *stowage.PavVolume) steps.State {
	return steps.State{Phase: string(cmp.Or(v.Status.Phase, stowage.PavVolumePending)), Failing: failingOf(&v.Status)}
}

// failingOf returns what fails of a volume. A new attempt does not change it until it succeeds.
func failingOf(s *stowage.PavVolumeStatus) steps.Failing {
	deletable, provisioned := meta.FindStatusCondition(s.Conditions, stowage.ConditionDeletable), meta.FindStatusCondition(s.Conditions, stowage.ConditionProvisioned)
	waits := provisioned != nil && provisioned.Status == metav1.ConditionFalse && provisioned.Message != "" &&
		provisioned.Reason != string(rules.Kept) && provisioned.Reason != string(rules.Abandoned)
	switch {
	case deletable != nil:
		return steps.Failing{Operation: "delete", Reason: deletable.Reason}
	case s.DeletionFailures > 0:
		return steps.Failing{Operation: "delete", Reason: steps.ReasonOf(s.LastError)}
	case waits:
		return steps.Failing{Operation: "create", Reason: provisioned.Reason}
	case s.Failures > 0 && s.Phase != stowage.PavVolumeProvisioned:
		return steps.Failing{Operation: "create", Reason: steps.ReasonOf(s.LastError)}
	default:
		return steps.Failing{}
	}
}

// observe records what a written status says first.
func (c *Controller) observe(s *situation, volume *stowage.PavVolume) {
	c.ObserveResult(s.Volume.Status.Step, volume.Status.Step, s.Pod)
	if s.Volume.Status.Phase == stowage.PavVolumePublishing && volume.Status.Phase == stowage.PavVolumeProvisioned {
		metrics.ObservePavProvisioning(max(0, c.Now().Sub(volume.CreationTimestamp.Time)))
	}
}
