// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// nodeFound is the reason of the condition NodeExists of a volume whose node exists.
const nodeFound Reason = "NodeFound"

// setConditions sets the conditions of a status: those of its phase, and of the problem that event
// describes, if it describes one.
func (f *Facts) setConditions(status *stowage.PavVolumeStatus, event Event) {
	status.ObservedGeneration = f.Volume.Generation
	set := func(kind string, value bool, reason, message string) {
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: stowage.FitMessage(message),
			ObservedGeneration: f.Volume.Generation, LastTransitionTime: metav1.NewTime(f.Now),
		}
		if value {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	var deletes bool // the event is about the deletion of the volume
	switch status.Phase {
	case stowage.PavVolumeDeleting, stowage.PavVolumeDeleted:
		deletes = true
	case stowage.PavVolumeProvisioned:
		deletes = event.Reason == Staged
	}
	phase := string(status.Phase)
	provisioned := status.Phase == stowage.PavVolumeProvisioned && event.Reason != Missing && event.Reason != NotOwned && event.Reason != Kept
	if event.Reason == "" || deletes {
		set(stowage.ConditionProvisioned, provisioned, phase, "")
	} else {
		set(stowage.ConditionProvisioned, provisioned, string(event.Reason), event.Message)
	}
	if deletes && event.Reason != "" && !event.Normal {
		set(stowage.ConditionDeletable, false, string(event.Reason), event.Message)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, stowage.ConditionDeletable)
	}
	switch {
	case f.Volume.Spec.NodeName == "" || status.Phase == stowage.PavVolumePending:
		meta.RemoveStatusCondition(&status.Conditions, stowage.ConditionNodeExists)
	case f.Node == nil:
		set(stowage.ConditionNodeExists, false, string(NodeGone), f.nodeGoneMessage())
	default:
		set(stowage.ConditionNodeExists, true, string(nodeFound), "")
	}
}
