// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// next returns the Record of a status that change changed.
func (f *Facts) next(event Event, change func(*stowage.PavStagingStatus)) Record {
	status := *f.Staging.Status.DeepCopy()
	change(&status)
	f.setConditions(&status, event)
	return Record{Status: status, Event: event}
}

// enter returns the Record of a phase that begins. No helper pod exists.
func (f *Facts) enter(phase stowage.PavStagingPhase, event Event) Record {
	return f.next(event, func(s *stowage.PavStagingStatus) {
		s.Phase, s.Step, s.UnstagingFailures, s.RetryTime = phase, nil, 0, nil
	})
}

// leave returns the Record of an attempt that is to be unstaged. The staging pod may exist.
func (f *Facts) leave(event Event) Record {
	return f.next(event, func(s *stowage.PavStagingStatus) {
		s.Phase, s.RetryTime = stowage.PavStagingUnstaging, nil
		if s.Step != nil {
			s.StagedAttempt = s.Step.Attempt
		}
	})
}

// failed returns the Record of an attempt that failed. It leads to Unstaging if something of the
// volume may be on the node, and to Pending if not. The next attempt begins after a backoff.
func (f *Facts) failed(phase stowage.PavStagingPhase, reason Reason, message string) Record {
	event := Event{Reason: reason, Message: message}
	failure := f.lastError(reason, message)
	return f.next(event, func(s *stowage.PavStagingStatus) {
		if s.Step != nil && s.Step.Name == stowage.PavStepStaging && phase == stowage.PavStagingUnstaging {
			s.StagedAttempt = s.Step.Attempt
		}
		s.Phase, s.Step, s.RetryTime, s.LastError = phase, nil, nil, failure
		if s.Failures++; phase == stowage.PavStagingPending {
			s.RetryTime = f.Limits.RetryTime(f.Now, s.Failures)
		}
	})
}

func (f *Facts) lastError(reason Reason, message string) *stowage.PavVolumeError {
	failure := &stowage.PavVolumeError{Step: stowage.PavStepStaging, Time: metav1.NewTime(f.Now), Reason: string(reason), Message: stowage.FitMessage(message)}
	if step := f.Staging.Status.Step; step != nil {
		failure.Step, failure.Attempt = step.Name, step.Attempt
	} else if step := EvaluatedStep(f.Staging); step != "" {
		failure.Step = step
	}
	return failure
}

// lastEvent is the event of the condition Staged, which still holds.
func (f *Facts) lastEvent() Event {
	condition := meta.FindStatusCondition(f.Staging.Status.Conditions, stowage.ConditionStaged)
	if condition == nil || condition.Status == metav1.ConditionTrue || condition.Message == "" {
		return Event{}
	}
	return Event{Reason: Reason(condition.Reason), Message: condition.Message, ConditionOnly: true}
}

// setConditions sets the conditions of a status: those of its phase, and of the problem that event
// describes, if it describes one.
func (f *Facts) setConditions(status *stowage.PavStagingStatus, event Event) {
	status.ObservedGeneration = f.Staging.Generation
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: stowage.FitMessage(message),
			ObservedGeneration: f.Staging.Generation, LastTransitionTime: metav1.NewTime(f.Now),
		})
	}
	unstages := status.Phase == stowage.PavStagingUnstaging || status.Phase == stowage.PavStagingClearing
	problem := event.Reason == UnstagingFailed || event.Reason == NotCleared || event.Reason == PodRemains || event.Reason == PodNotRunning
	if unstages && problem {
		set(stowage.ConditionUnstageable, metav1.ConditionFalse, string(event.Reason), event.Message)
		event = f.lastEvent()
	} else {
		meta.RemoveStatusCondition(&status.Conditions, stowage.ConditionUnstageable)
	}
	switch {
	case status.Phase == stowage.PavStagingStaged:
		set(stowage.ConditionStaged, metav1.ConditionTrue, string(stowage.PavStagingStaged), "")
	case event.Reason != "":
		set(stowage.ConditionStaged, metav1.ConditionFalse, string(event.Reason), event.Message)
	default:
		set(stowage.ConditionStaged, metav1.ConditionFalse, string(status.Phase), "")
	}
}

// blocked returns a Wait for another actor.
func blocked(reason Reason, format string, args ...any) Wait {
	return Wait{Event: Event{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}
