// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
)

// helper are the facts about the helper pod.
func (f *Facts) helper() podstep.Facts {
	return podstep.Facts{
		Now: f.Now, Step: f.Volume.Status.Step, Pod: f.Pod,
		HasPod: f.Evaluated.HasPod, Namespace: f.Evaluated.Namespace, Timeout: f.Limits.Timeout,
	}
}

// run has the helper pod of the current step run. It returns the result once it is recorded and
// the pod is gone, and the next step until then.
func (f *Facts) run() (Step, *stowage.PavStepResult) {
	switch action := podstep.Next(f.helper()).(type) {
	case podstep.Announce:
		return f.announce(), nil
	case podstep.Withdraw:
		return f.next(Event{}, func(s *stowage.PavVolumeStatus) { s.Step = nil }), nil
	case podstep.Create:
		return f.certain(CreatePod{}), nil
	case podstep.Adopt:
		return PodCreated(f, action.UID), nil
	case podstep.End:
		return f.result(action.Result), nil
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
	return f.next(Event{}, func(s *stowage.PavVolumeStatus) {
		s.Attempt++
		s.Step = podstep.New(EvaluatedStep(f.Volume), f.Volume.UID, s.Attempt, f.Now)
		s.Step.Revision, s.Step.PodNamespace = RevisionOf(f.Volume, f.last()), f.Evaluated.Namespace
		if f.Evaluated.Handle != nil {
			s.Handle = *f.Evaluated.Handle
		}
	})
}

// last returns the provisioner's last accepted revision; empty if there is none.
func (f *Facts) last() string {
	if f.Provisioner == nil {
		return ""
	}
	return f.Provisioner.Revision
}

// PodCreated returns the Record of the UID of the helper pod, once it is known to be the one that
// CreatePod created.
func PodCreated(f *Facts, uid types.UID) Record {
	return f.next(Event{}, func(s *stowage.PavVolumeStatus) { s.Step.PodUID = uid })
}

// PodRefused returns the Record of a helper pod that the API server refused to create.
func PodRefused(f *Facts, message string) Record {
	message = f.describe("was not created: " + message)
	switch f.Volume.Status.Phase {
	case stowage.PavVolumeValidating:
		return f.failed(stowage.PavVolumePending, Invalid, message)
	case stowage.PavVolumeCreating:
		return f.failed(stowage.PavVolumePending, CreationFailed, message)
	default:
		return f.deletionFailed(message)
	}
}

// PodNotCreated returns the Record of a helper pod whose creation had an error after which the pod may
// exist. It is created again.
func PodNotCreated(f *Facts, message string) Record {
	return f.next(Event{Reason: PodNotRunning, Message: f.describe("is not created yet: " + message)}, func(*stowage.PavVolumeStatus) {})
}

// result returns the Record of a result, of the helper pod or instead of it.
func (f *Facts) result(result stowage.PavStepResult) Record {
	return f.next(Event{}, func(s *stowage.PavVolumeStatus) { f.helper().Finish(s.Step, result) })
}

// describe returns a sentence about the helper pod of the status.
func (f *Facts) describe(what string) string { return podstep.Describe(f.Volume.Status.Step, what) }
