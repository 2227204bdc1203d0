// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package helperpod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/pav/report"
)

// State is what is known about the end of a helper pod.
type State string

// The states of helper pods.
const (
	// Running pods have not ended: their containers may run, now or later.
	Running State = "Running"
	// Succeeded pods have done their step, and left a report.
	Succeeded State = "Succeeded"
	// Failed pods have ended without doing their step.
	Failed State = "Failed"
	// Disrupted pods were deleted or evicted before their main containers ended on their own: a
	// program that exits with 0 on SIGTERM has not done its step.
	Disrupted State = "Disrupted"
	// Unknown pods have succeeded, but without a report.
	Unknown State = "Unknown"
)

// Outcome is how a helper pod ended.
type Outcome struct {
	State State
	// Report is nil while the pod runs, and if the reporter left none. It is set for Succeeded.
	Report *report.Report
	// Message says why the state is not Succeeded, in one sentence. Empty for Succeeded and
	// Running.
	Message string
}

// clockSkew is how far the clocks of a node and of the API server may be apart. Main containers that
// ended this long before a disruption, or longer, ended on their own.
const clockSkew = time.Minute

// OutcomeOf returns how a helper pod ended, from its metadata and status alone.
func OutcomeOf(pod *corev1.Pod) Outcome {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	// The API server binds no pod that is being deleted to a node, so this one never starts.
	neverStarts := pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
	if !ended && !neverStarts {
		return Outcome{State: Running}
	}
	var o Outcome
	r, err := ReportOf(&pod.Status)
	if err == nil {
		o.Report = &r
	}
	if why := disruption(pod); why != "" {
		o.State, o.Message = Disrupted, why
		return o
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		o.State, o.Message = Failed, failure(pod, r.Error)
		if err != nil {
			o.Message += "; " + err.Error()
		}
	case err != nil:
		o.State, o.Message = Unknown, err.Error()
	default:
		o.State = Succeeded
	}
	return o
}

// Done reports whether the main containers of a pod that runs have succeeded, and none is restarted: only
// its report is missing. Kubelet takes a second or two to end the reporter.
func Done(pod *corev1.Pod) bool {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || OutcomeOf(pod).State != Running || disruption(pod) != "" {
		return false
	}
	for _, c := range pod.Spec.Containers {
		if c.RestartPolicy != nil {
			return false
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t == nil || t.ExitCode != 0 || t.FinishedAt.IsZero() {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers) && len(pod.Spec.Containers) > 0
}

// ReportOf returns the report that the reporter left in its termination message. The errors are
// those of report.Decode; a reporter that has not terminated left no report.
func ReportOf(status *corev1.PodStatus) (report.Report, error) {
	for _, s := range status.InitContainerStatuses {
		if s.Name == ReporterName && s.State.Terminated != nil {
			return report.Decode(s.State.Terminated.Message)
		}
	}
	return report.Report{}, report.ErrMissing
}

// disruption returns why the main containers of a pod did not end on their own; empty if they did.
func disruption(pod *corev1.Pod) string {
	var first time.Time
	why := ""
	if deleted := pod.DeletionTimestamp; deleted != nil {
		// It is later than the request by the grace period, also after a second request.
		first, why = deleted.Time, "the pod was deleted before its containers ended"
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			first = first.Add(-time.Duration(*grace) * time.Second)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue {
			continue
		}
		// It says more than the deletion that follows.
		if at := c.LastTransitionTime.Time; why == "" || at.Before(first) {
			first = at
		}
		why = fmt.Sprintf("the pod was disrupted before its containers ended: %s: %s", c.Reason, c.Message)
	}
	if end, ok := endOfMains(pod); why != "" && ok && end.Add(clockSkew).Before(first) {
		return ""
	}
	return why
}

// endOfMains returns when the last main container ended, or the init container that failed. false:
// not all of them are known to have ended.
func endOfMains(pod *corev1.Pod) (time.Time, bool) {
	if failed, ok := firstFailure(pod, pod.Status.InitContainerStatuses); ok {
		return failed.State.Terminated.FinishedAt.Time, true
	}
	var last time.Time
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated == nil {
			return time.Time{}, false
		}
		if end := s.State.Terminated.FinishedAt.Time; end.After(last) {
			last = end
		}
	}
	// Containers that never started have no time.
	return last, len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers) && !last.IsZero()
}

// firstFailure returns the container that failed first. Native sidecars do not count: they are
// terminated when the others have ended, and their exit code decides nothing.
func firstFailure(pod *corev1.Pod, statuses []corev1.ContainerStatus) (corev1.ContainerStatus, bool) {
	var first corev1.ContainerStatus
	for _, s := range statuses {
		sidecar := slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == s.Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
		if t := s.State.Terminated; sidecar || t == nil || t.ExitCode == 0 {
			continue
		}
		if first.State.Terminated == nil || s.State.Terminated.FinishedAt.Before(&first.State.Terminated.FinishedAt) {
			first = s
		}
	}
	return first, first.State.Terminated != nil
}

// failure describes why a pod failed: kubelet's reason, the container that failed first, the text of
// /pav/error.
func failure(pod *corev1.Pod, text string) string {
	var parts []string
	for _, part := range []string{pod.Status.Reason, pod.Status.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	failed, ok := firstFailure(pod, pod.Status.InitContainerStatuses)
	if !ok {
		failed, ok = firstFailure(pod, pod.Status.ContainerStatuses)
	}
	if ok {
		t := failed.State.Terminated
		parts = append(parts, fmt.Sprintf("container %s ended with exit code %d (%s)", failed.Name, t.ExitCode, t.Reason))
	}
	if text != "" {
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "the pod failed"
	}
	return strings.Join(parts, ": ")
}
