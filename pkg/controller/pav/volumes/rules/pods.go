// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/helperpod"
)

// remainsAfter is how long a helper pod may take to end after its deletion before users are
// notified. It is longer than the grace period of most pods.
const remainsAfter = time.Minute

// run has the helper pod of the current step run. It returns the result once it is recorded and
// the pod is gone, and the next step until then.
func (f *Facts) run() (Step, *stowage.PavStepResult) {
	step, pod := f.Volume.Status.Step, f.pod()
	switch {
	case step == nil:
		return f.announce(), nil
	case step.Result != nil:
		return nil, step.Result
	case pod == nil && step.PodUID == "" && (!f.Evaluated.HasPod || f.Evaluated.Namespace != step.PodNamespace):
		return f.next(Event{}, func(s *stowage.PavVolumeStatus) { s.Step = nil }), nil // an object that a template reads has changed
	case pod == nil && step.PodUID == "":
		return f.certain(CreatePod{}), nil
	case pod == nil:
		return f.result(stowage.PavStepResult{Message: "was deleted, so its result is not known"}), nil
	case step.PodUID == "" && !pod.Adoptable:
		return f.result(stowage.PavStepResult{Message: "may have been created by another client, so its result does not count"}), nil
	case step.PodUID == "":
		return PodCreated(f, pod.UID), nil
	case pod.Result != nil:
		return f.result(*pod.Result), nil
	}
	left := min(f.Terms.Timeout-f.Now.Sub(step.StartTime.Time), f.Terms.Timeout) // the clock may have been set
	switch {
	case left <= 0 && pod.Problem != "":
		return f.result(stowage.PavStepResult{Message: fmt.Sprintf("did not end within %s: %s", f.Terms.Timeout, pod.Problem)}), nil
	case left <= 0:
		return f.result(stowage.PavStepResult{Message: fmt.Sprintf("did not end within %s", f.Terms.Timeout)}), nil
	case pod.Problem != "":
		wait := blocked(PodNotRunning, "%s", f.describe(pod.Problem))
		wait.For = left
		return wait, nil
	default:
		return Wait{For: left}, nil
	}
}

// announce returns the Record of a helper pod before it is created.
func (f *Facts) announce() Record {
	return f.next(Event{}, func(s *stowage.PavVolumeStatus) {
		s.Attempt++
		name := EvaluatedStep(f.Volume)
		s.Step = &stowage.PavVolumeStep{
			Name: name, Attempt: s.Attempt, Revision: RevisionOf(f.Volume, f.last()),
			PodNamespace: f.Evaluated.Namespace, PodName: helperpod.Name(HelperStep(name), f.Volume.UID, s.Attempt),
			StartTime: metav1.NewTime(f.Now),
		}
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

// pod returns the helper pod of the status; nil if it does not exist, or another pod has its name.
func (f *Facts) pod() *Pod {
	if step := f.Volume.Status.Step; step == nil || f.Pod == nil || step.PodUID != "" && step.PodUID != f.Pod.UID {
		return nil
	}
	return f.Pod
}

// idle reports whether no helper pod was created since the last result.
func (f *Facts) idle() bool {
	step := f.Volume.Status.Step
	return step == nil || step.Result == nil && step.PodUID == "" && f.Pod == nil
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
	return f.next(Event{}, func(s *stowage.PavVolumeStatus) {
		if pod := f.pod(); pod != nil {
			s.Step.PodUID = pod.UID
		}
		result.Message = stowage.FitMessage(result.Message)
		s.Step.Result = &result
	})
}

// describe returns a sentence about the helper pod of the status.
func (f *Facts) describe(what string) string {
	step := f.Volume.Status.Step
	if what == "" {
		what = "failed"
	}
	return fmt.Sprintf("%s pod %s/%s: %s", HelperStep(step.Name), step.PodNamespace, step.PodName, what)
}

// removePod removes the helper pod after its result was recorded.
func (f *Facts) removePod() Step {
	pod := f.Pod
	switch age := f.Now.Sub(pod.DeletedAt); {
	case pod.DeletedAt.IsZero():
		return DeletePod{pod.UID}
	case pod.Over && pod.Finalized:
		return ReleasePod{pod.UID}
	case pod.Over:
		return Wait{Keep: true}
	case age >= remainsAfter:
		return blocked(PodRemains, "%s", f.describe(fmt.Sprintf("has not ended %s after its deletion, its node may be unreachable", remainsAfter)))
	default:
		return Wait{Keep: true, For: min(remainsAfter-age, remainsAfter)}
	}
}

// HelperStep returns the step of a helper pod by its name in a PavVolume.
func HelperStep(name stowage.PavStepName) helperpod.Step {
	return helperpod.Step(strings.ToLower(string(name)))
}

// ResultOf returns the result of a helper pod; nil while it runs.
func ResultOf(outcome helperpod.Outcome) *stowage.PavStepResult {
	if outcome.State == helperpod.Running {
		return nil
	}
	result := &stowage.PavStepResult{Succeeded: outcome.State == helperpod.Succeeded, Message: outcome.Message}
	if outcome.Report == nil {
		return result
	}
	result.Reschedule = outcome.Report.Reschedule && !result.Succeeded
	if !result.Succeeded {
		return result
	}
	problems := slices.DeleteFunc(slices.Clone(outcome.Report.Problems), func(problem string) bool {
		return strings.HasPrefix(problem, "/pav/volume") // of staging pods only
	})
	if handle := outcome.Report.Handle; handle != nil && badHandle(*handle) != "" {
		problems = append(problems, "/pav/handle "+badHandle(*handle))
	}
	if capacity := outcome.Report.Capacity; capacity != nil && len(*capacity) > maxCapacity {
		problems = append(problems, fmt.Sprintf("/pav/capacity has %d bytes, must have at most %d", len(*capacity), maxCapacity))
	}
	if len(problems) > 0 {
		return &stowage.PavStepResult{Message: strings.Join(problems, "; ")}
	}
	result.Handle, result.Capacity = outcome.Report.Handle, outcome.Report.Capacity
	return result
}
