// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides how a volume of a PavProvisioner is made and deleted. Decide takes the
// facts about one claim and returns the next step; package volumes reads the facts and takes
// the step.
//
// A volume has one PavVolume, which is named after the UID of its claim: writing it a second time
// fails. Its status is changed by compare-and-swap only, and names each helper pod before the pod
// is created and until the API server has no pod of that name any more. So a controller that
// continues from any point finds the pod, and no two helper pods of a volume exist at the same
// time. From Creating on, something of the volume may exist outside of the API: the PavVolume is
// removed only after a deletion pod has succeeded, unless the volume is retained.
//
// A model in the tests of package volumes checks this at each write.
package rules

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// Decide returns the next step for a claim or its volume.
func Decide(f *Facts) Step {
	if f.Volume == nil {
		return f.begin()
	}
	step := f.decideVolume()
	wait, waits := step.(Wait)
	if !waits || wait.Keep {
		return step
	}
	status := *f.Volume.Status.DeepCopy()
	f.setConditions(&status, wait.Event)
	if equality.Semantic.DeepEqual(status, f.Volume.Status) {
		return wait
	}
	return Record{Status: status, Event: wait.Event}
}

func (f *Facts) decideVolume() Step {
	status := &f.Volume.Status
	switch {
	case status.Step != nil && status.Step.Result != nil && f.helper().Current() != nil:
		return f.removePod()
	case pending(f.Volume):
		return f.retry()
	case f.Made.Problem != "" && status.Phase == stowage.PavVolumeValidating && f.helper().Over(), f.Made.Problem != "" && status.Phase == stowage.PavVolumeCreating && f.helper().Idle():
		return f.failed(stowage.PavVolumePending, RevisionMissing, f.Made.Problem)
	case f.Made.Problem != "" && status.Phase != stowage.PavVolumeProvisioned && status.Phase != stowage.PavVolumeDeleted && f.Volume.Spec.UseRevision == "":
		return blocked(RevisionMissing, "%s", f.Made.Problem)
	}
	switch status.Phase {
	case stowage.PavVolumeValidating:
		return f.validate()
	case stowage.PavVolumeCreating:
		return f.create()
	case stowage.PavVolumePublishing:
		return f.publish()
	case stowage.PavVolumeProvisioned:
		return f.keep()
	case stowage.PavVolumeReverting:
		return f.revert()
	case stowage.PavVolumeDeleting:
		return f.destroy()
	case stowage.PavVolumeDeleted:
		return f.unpublish()
	default:
		return blocked(NotSupported, "status.phase %s is not known: a later version of this controller wrote it", status.Phase)
	}
}

// wanted reports whether the volume is still to be made.
func (f *Facts) wanted() bool {
	return f.Claim != nil && f.Claim.DeletionTimestamp == nil && f.Volume.DeletionTimestamp == nil &&
		(f.Claim.Spec.VolumeName == "" || f.Claim.Spec.VolumeName == f.Volume.Name)
}

// certain returns Read unless the facts are live, and step if they are. It precedes each step
// that cannot be undone.
func (f *Facts) certain(step Step) Step {
	if !f.Live {
		return Read{}
	}
	return step
}

// next returns the Record of a status that change changed.
func (f *Facts) next(event Event, change func(*stowage.PavVolumeStatus)) Record {
	status := *f.Volume.Status.DeepCopy()
	change(&status)
	f.setConditions(&status, event)
	return Record{Status: status, Event: event}
}

// enter returns the Record of a phase that begins. No helper pod exists.
func (f *Facts) enter(phase stowage.PavVolumePhase, event Event) Record {
	return f.next(event, func(s *stowage.PavVolumeStatus) {
		s.Phase, s.Step, s.DeletionFailures, s.RetryTime = phase, nil, 0, nil
		if phase == stowage.PavVolumePending {
			s.Handle, s.Capacity = "", nil
		}
	})
}

// failed returns the Record of an attempt that failed. It leads to Reverting if something of the
// volume may exist, and to Pending if not. The next attempt begins after a backoff.
func (f *Facts) failed(phase stowage.PavVolumePhase, reason Reason, message string) Record {
	record := f.enter(phase, Event{Reason: reason, Message: message})
	s := &record.Status
	s.LastError = f.lastError(reason, message)
	if s.Failures++; phase == stowage.PavVolumePending {
		s.RetryTime = f.Limits.RetryTime(f.Now, s.Failures)
	}
	return record
}

func (f *Facts) lastError(reason Reason, message string) *stowage.PavVolumeError {
	failure := &stowage.PavVolumeError{Step: EvaluatedStep(f.Volume), Time: metav1.NewTime(f.Now), Reason: string(reason), Message: stowage.FitMessage(message)}
	if f.Volume.Status.Phase == stowage.PavVolumePublishing {
		failure.Step = stowage.PavStepCreation
	}
	if step := f.Volume.Status.Step; step != nil {
		failure.Attempt = step.Attempt
	}
	return failure
}

// owned reports whether the PersistentVolume with the name of the volume is of it.
func (f *Facts) owned() bool {
	csi := f.PV.Spec.CSI
	return csi != nil && csi.Driver == f.Volume.Spec.Provisioner && csi.VolumeHandle == f.Volume.Status.Handle
}

// nodeGone reports whether the volume can only be reached on a node that does not exist.
func (f *Facts) nodeGone() bool { return f.Made.Access.SelectedNode && f.Node == nil }

func (f *Facts) nodeGoneMessage() string {
	return fmt.Sprintf("node %s, which was selected for the volume, does not exist", f.Volume.Spec.NodeName)
}

// blocked returns a Wait for another actor.
func blocked(reason Reason, format string, args ...any) Wait {
	return Wait{Event: Event{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}
