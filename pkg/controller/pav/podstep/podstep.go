// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podstep decides about one helper pod of a volume: how it is announced, created, recorded
// and removed. It is what the rules of PavVolumes and of PavStagings have in common.
//
// The owner's status names each helper pod before the pod is created and until the API server has no
// pod of that name any more, and is changed by compare-and-swap only. So a controller that continues
// from any point finds the pod, and no two helper pods of an owner exist at the same time.
package podstep

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
)

const (
	// remainsAfter is how long a helper pod may take to end after its deletion before users are
	// notified. It is longer than the grace period of most pods.
	remainsAfter = time.Minute
	// MaxCapacity is the longest text of a capacity in bytes, as status.step has it.
	MaxCapacity = 64
)

// Pod is a helper pod.
type Pod struct {
	UID types.UID
	// Adoptable: the pod can only be the one that was announced. Tenants can create pods in their
	// own namespaces, so a pod there never is, before its UID is recorded.
	Adoptable bool
	// DeletedAt is when its deletion was requested; zero if it was not.
	DeletedAt time.Time
	// Finalized: it has the controller's finalizer. Over: no container of it runs, nor will one.
	Finalized, Over bool
	// Ready: it runs, was not deleted, and all its containers are ready, the reporter included.
	Ready bool
	// Done: its main containers have succeeded, and its report follows (helperpod.Done).
	Done bool
	// Result is of its main containers; nil while they run. A pod whose deletion was requested
	// before they had ended has not succeeded, whatever they returned.
	Result *stowage.PavStepResult
	// Volume is /pav/volume of a pod that has ended with a report, VolumeProblem what is wrong with it.
	Volume        report.Volume
	VolumeProblem string
	// Problem is why the pod does not run; empty if it does.
	Problem string
}

// Limits are those of a step.
type Limits struct {
	// Timeout limits the time from the announcement of a helper pod to its end, or until a staging
	// pod is ready; 0 without a limit.
	Timeout time.Duration
	// BackoffFirst is the delay after the first failure. It doubles with each failure up to
	// BackoffLast.
	BackoffFirst, BackoffLast time.Duration
}

// RetryTime returns when to try again after a number of failures.
func (l Limits) RetryTime(now time.Time, failures int32) *metav1.Time {
	delay := l.BackoffFirst
	for n := int32(1); n < failures && delay < l.BackoffLast; n++ {
		delay *= 2
	}
	return new(metav1.NewTime(now.Add(min(delay, l.BackoffLast))))
}

// Delay returns how long to wait until a retry time, which may be nil; 0 if the wait is over. A time
// that is further ahead than any backoff was written before the clock was set: it does not delay.
func (l Limits) Delay(now time.Time, at *metav1.Time) time.Duration {
	if at == nil {
		return 0
	}
	wait := at.Sub(now)
	if wait > l.BackoffLast+time.Second { // the time is written to the second
		return 0
	}
	return max(0, wait)
}

// Facts are what is known about the helper pod of an owner's current step.
type Facts struct {
	Now time.Time
	// Step is status.step of the owner; nil if no pod is announced.
	Step *stowage.PavVolumeStep
	// Pod has the namespace and name of Step; nil if the API server has none.
	Pod *Pod
	// HasPod: the evaluated step has a pod, to be created in Namespace.
	HasPod    bool
	Namespace string
	Timeout   time.Duration
	// Stays: the pod need not end. Timeout is then until it is ready.
	Stays bool
}

// Action is what to do next about the helper pod.
type Action interface{ isAction() }

// The actions.
type (
	// Announce writes a new step to the status.
	Announce struct{}
	// Withdraw removes the step from the status: its pod was not created, and will not be.
	Withdraw struct{}
	// Create creates the pod. That it does not exist must be known from the API server.
	Create struct{}
	// Adopt writes the UID of the pod to the status.
	Adopt struct{ UID types.UID }
	// End writes a result to the status.
	End struct{ Result stowage.PavStepResult }
	// Ready: the pod is ready. It is returned while Stays.
	Ready struct{}
	// Wait ends when the pod changes, or after For; 0 without a limit. Problem is why the pod
	// does not run; empty if it does.
	Wait struct {
		For     time.Duration
		Problem string
	}
	// Done: the result is recorded, and the pod is gone.
	Done struct{ Result *stowage.PavStepResult }
	// Delete deletes the pod.
	Delete struct{ UID types.UID }
	// Release removes the finalizer from the pod.
	Release struct{ UID types.UID }
	// Remains waits for a pod that does not end after its deletion.
	Remains struct{ Problem string }
)

func (Announce) isAction() {}
func (Withdraw) isAction() {}
func (Create) isAction()   {}
func (Adopt) isAction()    {}
func (End) isAction()      {}
func (Ready) isAction()    {}
func (Wait) isAction()     {}
func (Done) isAction()     {}
func (Delete) isAction()   {}
func (Release) isAction()  {}
func (Remains) isAction()  {}

// Next returns what to do about the helper pod of a step that is wanted.
func Next(f Facts) Action {
	step, pod := f.Step, f.Current()
	switch {
	case step == nil:
		return Announce{}
	case step.Result != nil && f.Current() != nil:
		return Remove(f)
	case step.Result != nil:
		return Done{step.Result}
	case pod == nil && step.PodUID == "" && (!f.HasPod || f.Namespace != step.PodNamespace):
		return Withdraw{} // an object that a template reads has changed
	case pod == nil && step.PodUID == "":
		return Create{}
	case pod == nil:
		return End{stowage.PavStepResult{Message: "was deleted, so its result is not known"}}
	case step.PodUID == "" && !pod.Adoptable:
		return End{stowage.PavStepResult{Message: "may have been created by another client, so its result does not count"}}
	case step.PodUID == "":
		return Adopt{pod.UID}
	case pod.Result != nil:
		return End{*pod.Result}
	case f.Stays && pod.Ready:
		return Ready{}
	}
	return f.wait()
}

// wait waits for a pod that runs.
func (f Facts) wait() Action {
	if f.Timeout == 0 {
		return Wait{Problem: f.Pod.Problem}
	}
	left := min(f.Timeout-f.Now.Sub(f.Step.StartTime.Time), f.Timeout) // the clock may have been set
	if left > 0 {
		return Wait{For: left, Problem: f.Pod.Problem}
	}
	message := fmt.Sprintf("did not end within %s", f.Timeout)
	if f.Stays {
		message = fmt.Sprintf("was not ready within %s", f.Timeout)
	}
	if f.Pod.Problem != "" {
		message += ": " + f.Pod.Problem
	}
	return End{stowage.PavStepResult{Message: message}}
}

// Remove returns what to do about the helper pod that exists, after its result was recorded.
func Remove(f Facts) Action {
	pod := f.Pod
	switch age := f.Now.Sub(pod.DeletedAt); {
	case pod.DeletedAt.IsZero():
		return Delete{pod.UID}
	case pod.Over && pod.Finalized:
		return Release{pod.UID}
	case pod.Over:
		return Wait{}
	case age >= remainsAfter:
		return Remains{Describe(f.Step, fmt.Sprintf("has not ended %s after its deletion, its node may be unreachable", remainsAfter))}
	default:
		return Wait{For: min(remainsAfter-age, remainsAfter)}
	}
}

// Current returns the helper pod of the step; nil if it does not exist, or another pod has its name.
func (f Facts) Current() *Pod {
	if f.Step == nil || f.Pod == nil || f.Step.PodUID != "" && f.Step.PodUID != f.Pod.UID {
		return nil
	}
	return f.Pod
}

// Idle reports whether no helper pod was created since the last result.
func (f Facts) Idle() bool {
	return f.Step == nil || f.Step.Result == nil && f.Step.PodUID == "" && f.Pod == nil
}

// Over reports whether no helper pod exists, and none will before the next announcement.
func (f Facts) Over() bool { return f.Idle() || f.Step.Result != nil && f.Current() == nil }

// New returns a step to be announced.
func New(name stowage.PavStepName, owner types.UID, attempt int64, now time.Time) *stowage.PavVolumeStep {
	return &stowage.PavVolumeStep{
		Name: name, Attempt: attempt, PodName: helperpod.Name(HelperStep(name), owner, attempt), StartTime: metav1.NewTime(now),
	}
}

// Finish writes a result, of the helper pod or instead of it, to the step of a status.
func (f Facts) Finish(step *stowage.PavVolumeStep, result stowage.PavStepResult) {
	if pod := f.Current(); pod != nil {
		step.PodUID = pod.UID
	}
	result.Message = stowage.FitMessage(result.Message)
	step.Result = &result
}

// Describe returns a sentence about the helper pod of a step.
func Describe(step *stowage.PavVolumeStep, what string) string {
	if what == "" {
		what = "failed"
	}
	return fmt.Sprintf("%s pod %s/%s: %s", HelperStep(step.Name), step.PodNamespace, step.PodName, what)
}

// HelperStep returns the step of a helper pod by its name in a status.
func HelperStep(name stowage.PavStepName) helperpod.Step {
	return helperpod.Step(strings.ToLower(string(name)))
}

// ResultOf returns the result of a helper pod; nil while it runs. Handle and capacity are not checked
// beyond what a status can hold.
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
	problems := slices.DeleteFunc(slices.Clone(outcome.Report.Problems), ofVolume)
	if handle := outcome.Report.Handle; handle != nil && BadHandle(*handle) != "" {
		problems = append(problems, "/pav/handle "+BadHandle(*handle))
	}
	if capacity := outcome.Report.Capacity; capacity != nil && len(*capacity) > MaxCapacity {
		problems = append(problems, fmt.Sprintf("/pav/capacity has %d bytes, must have at most %d", len(*capacity), MaxCapacity))
	}
	if len(problems) > 0 {
		return &stowage.PavStepResult{Message: strings.Join(problems, "; ")}
	}
	result.Handle, result.Capacity = outcome.Report.Handle, outcome.Report.Capacity
	return result
}

// ofVolume reports whether a problem of a report is about /pav/volume, which only staging pods have.
func ofVolume(problem string) bool { return strings.HasPrefix(problem, "/pav/volume") }

// VolumeOf returns /pav/volume of a pod that has ended, and what is wrong with it.
func VolumeOf(outcome helperpod.Outcome) (volume report.Volume, problem string) {
	if outcome.Report == nil {
		return report.Volume{}, ""
	}
	if i := slices.IndexFunc(outcome.Report.Problems, ofVolume); i >= 0 {
		problem = outcome.Report.Problems[i]
	}
	return outcome.Report.Volume, problem
}

// maxHandle is the longest handle in bytes (size limits of the CSI specification).
const maxHandle = 128

// BadHandle returns what is wrong with a handle; empty if nothing is. Kubernetes separates driver
// and handle by ^ in the unique name of a volume (pkg/volume/csi).
func BadHandle(handle string) string {
	switch {
	case handle == "":
		return "is empty"
	case strings.Contains(handle, "^"):
		return fmt.Sprintf("%q must not have a ^", handle)
	case len(handle) > maxHandle:
		return fmt.Sprintf("has %d bytes, must have at most %d", len(handle), maxHandle)
	default:
		return ""
	}
}
