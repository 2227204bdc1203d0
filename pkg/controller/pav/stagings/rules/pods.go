// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/pav/report"
)

// helper are the facts about the helper pod.
func (f *Facts) helper() podstep.Facts {
	return podstep.Facts{
		Now: f.Now, Step: f.Staging.Status.Step, Pod: f.Pod,
		HasPod: f.Evaluated.HasPod, Namespace: f.Evaluated.Namespace, Timeout: f.Limits.Timeout,
	}
}

// run has the helper pod of the current step run. It returns the result once it is recorded and
// the pod is gone, and the next step until then.
func (f *Facts) run(h podstep.Facts) (Step, *stowage.PavStepResult) {
	switch action := podstep.Next(h).(type) {
	case podstep.Announce:
		return f.announce(), nil
	case podstep.Withdraw:
		return f.next(Event{}, func(s *stowage.PavStagingStatus) { s.Step = nil }), nil
	case podstep.Create:
		return f.certain(CreatePod{}), nil
	case podstep.Adopt:
		return PodCreated(f, action.UID), nil
	case podstep.End:
		return f.result(f.checked(action.Result)), nil
	case podstep.Done:
		return nil, action.Result
	case podstep.Wait:
		if action.Problem == "" {
			return Wait{For: action.For}, nil
		}
		wait := blocked(PodNotRunning, "%s", f.describe(action.Problem))
		wait.For = action.For
		return wait, nil
	default:
		return f.removePod(), nil
	}
}

// checked returns the result of a staging pod that succeeded without a volume as a failure.
func (f *Facts) checked(result stowage.PavStepResult) stowage.PavStepResult {
	pod, step := f.helper().Current(), f.Staging.Status.Step
	if !result.Succeeded || pod == nil || step.Name != stowage.PavStepStaging {
		return result
	}
	problem := pod.VolumeProblem
	if kind, bytes := f.wantedVolume(); problem == "" {
		if err := pod.Volume.Fits(kind, bytes); err != nil {
			problem = err.Error()
		}
	}
	if problem != "" {
		return stowage.PavStepResult{Message: problem}
	}
	return result
}

// wantedVolume returns what /pav/volume has to be. bytes are the least size of a block device.
func (f *Facts) wantedVolume() (kind report.Kind, bytes int64) {
	if pv := f.PV(); pv != nil {
		if mode, bytes := WantedMode(pv); mode == corev1.PersistentVolumeBlock {
			return report.BlockDevice, bytes
		}
	}
	return report.Directory, 0
}

// WantedMode returns the mode of a volume, and the least size of its block device.
func WantedMode(pv *corev1.PersistentVolume) (mode corev1.PersistentVolumeMode, bytes int64) {
	if mode = modeOf(pv); mode == corev1.PersistentVolumeBlock {
		capacity := pv.Spec.Capacity[corev1.ResourceStorage]
		bytes = capacity.Value()
	}
	return mode, bytes
}

// removePod removes the helper pod after its result was recorded.
func (f *Facts) removePod() Step {
	switch action := podstep.Remove(f.helper()).(type) {
	case podstep.Delete:
		return DeletePod{action.UID}
	case podstep.Release:
		return ReleasePod{action.UID}
	case podstep.Remains:
		return blocked(PodRemains, "%s", action.Problem)
	case podstep.Wait:
		return Wait{Keep: true, For: action.For}
	default:
		return Wait{Keep: true}
	}
}

// announce returns the Record of a helper pod before it is created.
func (f *Facts) announce() Record {
	return f.next(f.lastEvent(), func(s *stowage.PavStagingStatus) {
		s.Attempt++
		last := ""
		if f.Provisioner != nil {
			last = f.Provisioner.Revision
		}
		s.Step = podstep.New(EvaluatedStep(f.Staging), f.Staging.UID, s.Attempt, f.Now)
		if s.Step.Name == stowage.PavStepStaging {
			s.AllowedDevices = f.Evaluated.Devices
		}
		s.Step.Revision, s.Step.PodNamespace = RevisionOf(f.Staging, last, f.Volume), f.Evaluated.Namespace
	})
}

// PodCreated returns the Record of the UID of the helper pod, once it is known to be the one that
// CreatePod created.
func PodCreated(f *Facts, uid types.UID) Record {
	return f.next(Event{}, func(s *stowage.PavStagingStatus) { s.Step.PodUID = uid })
}

// PodRefused returns the Record of a helper pod that the API server refused to create.
func PodRefused(f *Facts, message string) Record {
	message = f.describe("was not created: " + message)
	switch f.Staging.Status.Phase {
	case stowage.PavStagingValidating:
		return f.failed(stowage.PavStagingPending, Invalid, message)
	case stowage.PavStagingUnstaging:
		return f.unstagingFailed(message)
	default:
		return f.failed(stowage.PavStagingPending, StagingFailed, message)
	}
}

// PodNotCreated returns the Record of a helper pod whose creation had an error after which the pod may
// exist. It is created again.
func PodNotCreated(f *Facts, message string) Record {
	return f.next(Event{Reason: PodNotRunning, Message: f.describe("is not created yet: " + message)}, func(*stowage.PavStagingStatus) {})
}

// result returns the Record of a result, of the helper pod or instead of it.
func (f *Facts) result(result stowage.PavStepResult) Record {
	return f.next(f.lastEvent(), func(s *stowage.PavStagingStatus) { f.helper().Finish(s.Step, result) })
}

// describe returns a sentence about the helper pod of the status.
func (f *Facts) describe(what string) string { return podstep.Describe(f.Staging.Status.Step, what) }
