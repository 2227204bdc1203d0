// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// State is how a Job stands.
type State string

// The states.
const (
	Running   State = "Running" // or about to
	Succeeded State = "Succeeded"
	Failed    State = "Failed"
)

// Standing is what is to be said of a Job.
type Standing struct {
	State State
	// Problem is why it does not stand as one would wish.
	Problem *disk.Problem
	// Step is how far it came, if its pod has told.
	Step string
}

// The reasons of Jobs that failed or do not get on, besides those that kubelet gives.
const (
	// JobGone: somebody has deleted the Job.
	JobGone disk.Reason = "JobDeleted"
	// JobFailed: the Job failed, and says no reason.
	JobFailed disk.Reason = "JobFailed"
	// JobSilent: the container ended well, and does not say that the disk is clean.
	JobSilent disk.Reason = "NoResult"
)

// Look says how a Job stands. pods are those of the Job that the API server shows: none
// once they are deleted. A Job has ended only when its pod has, so that the next one
// cannot meet it.
func Look(job *batchv1.Job, pods []*corev1.Pod) Standing {
	pod := latest(pods)
	result := resultOf(pod)
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return ended(result)
		case batchv1.JobFailed:
			return Standing{State: Failed, Step: result.Step, Problem: why(c, pod, result)}
		}
	}
	return Standing{State: Running, Step: result.Step, Problem: waits(pod)}
}

// ended is how a Job stands that says of itself that it is complete. Whether the disk is
// clean is the agent's to find out, who asked for it; a result that is lost with its pod
// does not keep it from that.
func ended(result Result) Standing {
	if result.Message != "" && !result.Clean {
		return Standing{State: Failed, Problem: disk.Problemf(JobSilent, "the Job ended well, and says: %s", result.Message)}
	}
	return Standing{State: Succeeded}
}

// why is the reason that says most about a Job that failed.
func why(c batchv1.JobCondition, pod *corev1.Pod, result Result) *disk.Problem {
	words := []string{}
	reason := result.Reason
	if reason == "" {
		reason = disk.Reason(cmp.Or(podReason(pod), c.Reason, string(JobFailed)))
	}
	if c.Reason == batchv1.JobReasonDeadlineExceeded {
		reason = disk.Reason(c.Reason)
		words = append(words, "not done within cleanTimeout")
	}
	if pod != nil && pod.Status.Reason != "" {
		words = append(words, strings.TrimSpace(pod.Status.Reason+" "+pod.Status.Message))
	}
	if t := terminated(pod); t != nil && result.Reason == "" {
		words = append(words, fmt.Sprintf("the container ended with %s, exit code %d", cmp.Or(t.Reason, "no reason"), t.ExitCode))
	}
	if result.Message != "" {
		words = append(words, result.Message)
	}
	if len(words) == 0 {
		words = append(words, cmp.Or(c.Message, "it says no reason"))
	}
	return &disk.Problem{Reason: reason, Message: strings.Join(words, "; ")}
}

func podReason(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	if t := terminated(pod); t != nil && pod.Status.Reason == "" {
		return t.Reason
	}
	return pod.Status.Reason
}

// waits is why a pod does not begin; nil if it has begun or only takes its time.
func waits(pod *corev1.Pod) *disk.Problem {
	if pod == nil || pod.Status.Phase != corev1.PodPending {
		return nil
	}
	for _, s := range pod.Status.ContainerStatuses {
		w := s.State.Waiting
		if w != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, w.Reason) {
			return disk.Problemf(disk.Reason(w.Reason), "pod %s waits: %s", pod.Name, cmp.Or(w.Message, w.Reason))
		}
	}
	return nil
}

func resultOf(pod *corev1.Pod) Result {
	if t := terminated(pod); t != nil {
		return Decode(t.Message)
	}
	return Result{}
}

func terminated(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil {
		return nil
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated
		}
	}
	return nil
}

// latest is the pod that was made last. There is one, but by somebody's hand.
func latest(pods []*corev1.Pod) *corev1.Pod {
	if len(pods) == 0 {
		return nil
	}
	return slices.MaxFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
