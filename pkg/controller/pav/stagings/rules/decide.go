// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides how a volume of a PavProvisioner is staged on a node and unstaged. Decide
// takes the facts about one PavStaging and returns the next step; package stagings reads the facts
// and takes the step.
//
// The PavStaging exists from kubelet's NodeStageVolume until its NodeUnstageVolume, and its finalizer
// keeps it until nothing of the volume is left on the node: the staging pod is gone, an unstaging pod
// has succeeded, and the node has confirmed that it has no mount, loop device or holder of the
// attempt. A second attempt before that could open the volume twice and damage it. Each attempt has a
// directory of its own.
package rules

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/pav/report"
)

// Decide returns the next step for a PavStaging.
func Decide(f *Facts) Step {
	if f.Staging == nil {
		return None{}
	}
	step := f.decide()
	wait, waits := step.(Wait)
	if !waits || wait.Keep {
		return step
	}
	status := *f.Staging.Status.DeepCopy()
	f.setConditions(&status, wait.Event)
	if equality.Semantic.DeepEqual(status, f.Staging.Status) {
		return wait
	}
	return Record{Status: status, Event: wait.Event}
}

func (f *Facts) decide() Step {
	status := &f.Staging.Status
	if why := f.lost(); why != "" {
		return f.abandon(why)
	}
	if step := status.Step; step != nil && step.Result != nil && f.helper().Current() != nil {
		return f.removePod()
	}
	switch status.Phase {
	case "", stowage.PavStagingPending:
		return f.pending()
	case stowage.PavStagingValidating:
		return f.validate()
	case stowage.PavStagingStaging:
		return f.stage()
	case stowage.PavStagingStaged:
		return f.keep()
	case stowage.PavStagingUnstaging:
		return f.unstage()
	case stowage.PavStagingClearing:
		return f.clear()
	default:
		return blocked(NotSupported, "status.phase %s is not known: a later version of this controller wrote it", status.Phase)
	}
}

// lost returns why nothing of the node counts any more; empty if it does. A node that is not ready may
// still write to the volume.
func (f *Facts) lost() string {
	switch node := f.Staging.Spec.NodeName; {
	case f.Staging.Annotations[wellknown.PavUnstagedAnnotation] == "true":
		return fmt.Sprintf("the annotation %s is set", wellknown.PavUnstagedAnnotation)
	case f.Node == nil:
		return fmt.Sprintf("node %s does not exist", node)
	case OutOfService(f.Node):
		return fmt.Sprintf("node %s has the taint %s", node, corev1.TaintNodeOutOfService)
	default:
		return ""
	}
}

// OutOfService reports whether an administrator has declared that a node is shut down (KEP-2268).
func OutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// abandon ends a staging without unstaging.
func (f *Facts) abandon(why string) Step {
	if pod := f.helper().Current(); pod != nil {
		switch {
		case pod.DeletedAt.IsZero():
			return f.certain(DeletePod{pod.UID})
		case pod.Finalized:
			return f.certain(ReleasePod{pod.UID}) // the garbage collector of pods deletes it
		}
	}
	switch {
	case f.Staging.DeletionTimestamp == nil:
		return f.certain(Delete{Event{Reason: Abandoned, Message: "the volume counts as unstaged, although no unstaging pod ran: " + why}})
	case f.finalized():
		return f.certain(Release{})
	default:
		return None{}
	}
}

func (f *Facts) finalized() bool {
	return slices.Contains(f.Staging.Finalizers, wellknown.PavStagingFinalizer)
}

// certain returns Read unless the facts are live, and step if they are. It precedes each step
// that cannot be undone.
func (f *Facts) certain(step Step) Step {
	if !f.Live {
		return Read{}
	}
	return step
}

// pending decides about a volume of which nothing is on the node.
func (f *Facts) pending() Step {
	status := &f.Staging.Status
	switch {
	case f.Staging.DeletionTimestamp != nil && f.finalized():
		return f.certain(Release{})
	case f.Staging.DeletionTimestamp != nil:
		return None{}
	case f.Provisioner != nil && f.Provisioner.Revision == "" && f.Provisioner.Problem == "":
		return Wait{Keep: true} // it was not validated yet
	}
	if refusal := f.refusal(); refusal != nil {
		switch {
		case !f.Live: // informers of several kinds are not at the same time
			return Read{}
		case refusal.Reason == Unused && status.StagedAttempt > 0: // kubelet does not request it any more
			return Delete{}
		}
		return Wait{Event: *refusal, For: f.Limits.BackoffLast}
	}
	if wait := f.Limits.Delay(f.Now, status.RetryTime); wait > 0 {
		return Wait{Keep: true, For: wait}
	}
	if !f.finalized() {
		return f.certain(AddFinalizer{})
	}
	begin := Begin{Status: *status.DeepCopy()}
	s := &begin.Status
	s.Phase, s.RetryTime = stowage.PavStagingStaging, nil
	if f.Volume == nil {
		s.Phase = stowage.PavStagingValidating
	}
	s.VolumeName, s.Revision, s.BootID = f.PV().Name, f.Provisioner.Revision, f.Staging.Spec.BootID
	f.setConditions(s, Event{})
	return f.certain(begin)
}

func (f *Facts) provisioned() bool { return f.Volume.Status.Phase == stowage.PavVolumeProvisioned }

// unwanted returns why an attempt is not continued; the zero value if it is.
func (f *Facts) unwanted() Event {
	s := f.Staging
	switch {
	case s.DeletionTimestamp != nil:
		return Event{Reason: Unrequested, Message: "kubelet unstages the volume", Normal: true}
	case s.Spec.BootID != s.Status.BootID:
		return Event{Reason: Rebooted, Message: fmt.Sprintf("node %s has rebooted, or lost the volume, since it was staged", s.Spec.NodeName)}
	default:
		return Event{}
	}
}

// unused is like unwanted, before the volume was staged.
func (f *Facts) unused() Event {
	if event := f.unwanted(); event.Reason != "" || f.Used {
		return event
	}
	return Event{Reason: Unused, Message: fmt.Sprintf("no pod on node %s uses the volume any more", f.Staging.Spec.NodeName)}
}

// validate decides about a static volume whose attempt has begun.
func (f *Facts) validate() Step {
	h := f.helper()
	if event := f.unused(); event.Reason != "" {
		if h.Over() {
			return f.certain(f.enter(stowage.PavStagingPending, event))
		}
		return f.certain(f.result(stowage.PavStepResult{Message: event.Message}))
	}
	if h.Idle() {
		refusal := f.refuseByValidation()
		switch {
		case refusal != nil:
			return f.failed(stowage.PavStagingPending, refusal.Reason, refusal.Message)
		case !f.Evaluated.HasPod:
			return f.enter(stowage.PavStagingStaging, Event{})
		}
	}
	step, result := f.run(h)
	switch {
	case result == nil:
		return step
	case !result.Succeeded:
		return f.failed(stowage.PavStagingPending, Invalid, f.describe(result.Message))
	default:
		return f.enter(stowage.PavStagingStaging, Event{})
	}
}

// stage decides about a volume that is to be staged.
func (f *Facts) stage() Step {
	h := f.helper()
	if event := f.unused(); event.Reason != "" {
		if h.Idle() {
			return f.certain(f.enter(stowage.PavStagingPending, event))
		}
		return f.certain(f.leave(event))
	}
	if h.Idle() && f.Evaluated.Problem != "" {
		return f.failed(stowage.PavStagingPending, StagingFailed, f.Evaluated.Problem)
	}
	h.Stays = true
	action := podstep.Next(h)
	_, ready := action.(podstep.Ready)
	_, waits := action.(podstep.Wait)
	if ready || waits && f.leftDirectory() {
		return f.staged(f.Staging.Status.Step)
	}
	step, result := f.run(h)
	switch {
	case result == nil:
		return step
	case !result.Succeeded:
		return f.failed(stowage.PavStagingUnstaging, StagingFailed, f.describe(result.Message))
	default:
		return f.staged(nil)
	}
}

// leftDirectory reports whether the main containers of the staging pod have succeeded, and the volume is a
// directory. Whether they left one, the node examines before it uses it, and the report has it; the size of
// a device is only in the report.
func (f *Facts) leftDirectory() bool {
	kind, _ := f.wantedVolume()
	return f.Pod.Done && kind == report.Directory
}

// staged returns the Record of a volume that is available. step is that of the staging pod; nil if it
// has ended. The node's confirmation resets the number of failures.
func (f *Facts) staged(step *stowage.PavVolumeStep) Record {
	event := Event{Reason: Succeeded, Message: fmt.Sprintf("Staged volume %s on node %s", f.Staging.Status.VolumeName, f.Staging.Spec.NodeName), Normal: true}
	return f.next(event, func(s *stowage.PavStagingStatus) {
		s.Phase, s.StagedAttempt, s.Step, s.RetryTime = stowage.PavStagingStaged, f.Staging.Status.Step.Attempt, step, nil
	})
}

// keep decides about a volume that is staged.
func (f *Facts) keep() Step {
	if event := f.unwanted(); event.Reason != "" {
		return f.certain(f.leave(event))
	}
	if volume := f.Staging.Spec.Volume; f.Staging.Status.Failures > 0 && volume != nil && volume.Attempt == f.Staging.Status.StagedAttempt {
		return f.next(Event{}, func(s *stowage.PavStagingStatus) { s.Failures = 0 })
	}
	if f.Staging.Status.Step == nil { // the staging pod has succeeded
		return Wait{}
	}
	h := f.helper()
	h.Stays, h.Timeout = true, 0
	if _, ready := podstep.Next(h).(podstep.Ready); ready {
		return Wait{}
	}
	step, result := f.run(h)
	switch {
	case result == nil:
		if _, waits := step.(Wait); waits { // its containers may be restarted
			return Wait{}
		}
		return step
	case !result.Succeeded:
		return f.failed(stowage.PavStagingUnstaging, StagingFailed, f.describe(result.Message))
	default:
		return f.next(Event{}, func(s *stowage.PavStagingStatus) { s.Step = nil })
	}
}

// unstage decides about a volume that is to be unstaged.
func (f *Facts) unstage() Step {
	h := f.helper()
	if step := f.Staging.Status.Step; step != nil && step.Name == stowage.PavStepStaging {
		switch {
		case h.Over():
			return f.certain(f.next(f.lastEvent(), func(s *stowage.PavStagingStatus) { s.Step = nil }))
		case step.Result == nil:
			return f.result(stowage.PavStepResult{Message: "is removed: the volume is unstaged"})
		}
	}
	if h.Idle() {
		wait := f.Limits.Delay(f.Now, f.Staging.Status.RetryTime)
		switch {
		case wait > 0:
			return Wait{Keep: true, For: wait}
		case f.Evaluated.Problem != "":
			return f.unstagingFailed(f.Evaluated.Problem)
		case !f.Evaluated.HasPod:
			return f.cleared()
		}
	}
	step, result := f.run(h)
	switch {
	case result == nil:
		return step
	case !result.Succeeded:
		return f.unstagingFailed(f.describe(result.Message))
	default:
		return f.cleared()
	}
}

// cleared returns the Record of a volume whose unstaging pod has succeeded.
func (f *Facts) cleared() Record { return f.enter(stowage.PavStagingClearing, f.lastEvent()) }

// clear decides about a volume of which the node is to confirm that nothing is left.
func (f *Facts) clear() Step {
	status := &f.Staging.Status
	switch {
	case f.Staging.Spec.ClearedAttempt < status.StagedAttempt:
		wait := blocked(NotCleared, "waiting for node %s to confirm that it has no pod with the volume, and no mount, loop device or holder of it", f.Staging.Spec.NodeName)
		wait.ConditionOnly = true // which takes a moment as a rule
		return wait
	case f.Staging.DeletionTimestamp != nil:
		return f.certain(Release{})
	}
	done := f.enter(stowage.PavStagingPending, f.lastEvent())
	if done.Status.Failures > 0 {
		done.Status.RetryTime = f.Limits.RetryTime(f.Now, done.Status.Failures)
	}
	return done
}

// unstagingFailed returns the Record of an unstaging pod that failed. The next one runs after a
// backoff, for as long as it takes.
func (f *Facts) unstagingFailed(message string) Record {
	return f.next(Event{Reason: UnstagingFailed, Message: message}, func(s *stowage.PavStagingStatus) {
		s.LastError = f.lastError(UnstagingFailed, message)
		s.Step = nil
		s.UnstagingFailures++
		s.RetryTime = f.Limits.RetryTime(f.Now, s.UnstagingFailures)
	})
}
