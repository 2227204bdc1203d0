// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Status is the progress of a Job.
type Status struct {
	// State is CleaningJobRunning, also of a Job that is about to run, or one of the final states.
	State stowage.CleaningJobState
	// Problem is why it does not make progress, or failed.
	Problem *disk.Problem
	// Step is its last step, if its pod has reported one.
	Step string
}

// The reasons of Jobs that failed or do not start, in addition to those of kubelet.
const (
	// JobDeleted: the Job was deleted.
	JobDeleted disk.Reason = "JobDeleted"
	// JobFailed: the Job failed without a reason.
	JobFailed disk.Reason = "JobFailed"
	// NoResult: the container succeeded without reporting that the disk is clean.
	NoResult disk.Reason = "NoResult"
)

// StatusOf returns the progress of a Job. pods are the Job's pods; none after they are deleted. A
// Job has ended only after its pod has, so that it never overlaps the next one.
func StatusOf(job *batchv1.Job, pods []*corev1.Pod) Status {
	pod := latest(pods)
	var result Result
	if t := terminated(pod); t != nil {
		result = Decode(t.Message)
	}
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return ended(result)
		case batchv1.JobFailed:
			return Status{State: stowage.CleaningJobFailed, Step: result.Step, Problem: why(c, pod, result)}
		}
	}
	return Status{State: stowage.CleaningJobRunning, Step: result.Step, Problem: waitProblem(pod)}
}

// ended returns the progress of a Job that is complete. The provisioner verifies that the disk
// is clean, even if the result is lost with its pod.
func ended(result Result) Status {
	if result.Message != "" && !result.Clean {
		return Status{State: stowage.CleaningJobFailed, Problem: disk.Problemf(NoResult, "the Job succeeded without reporting that the disk is clean: %s", result.Message)}
	}
	return Status{State: stowage.CleaningJobSucceeded}
}

// why returns the most specific reason of a Job that failed.
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
		words = append(words, cmp.Or(c.Message, "no reason given"))
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

// waitProblem returns why a pod does not start; nil if it has started or is starting.
func waitProblem(pod *corev1.Pod) *disk.Problem {
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

// latest returns the newest pod. There is only one unless pods were created by hand.
func latest(pods []*corev1.Pod) *corev1.Pod {
	if len(pods) == 0 {
		return nil
	}
	return slices.MaxFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Result is what a Job's container writes to ResultFile, from its start on, so that it exists
// however the container ends.
type Result struct {
	// Clean reports whether the disk is clean. Otherwise Reason and Message are why not; they
	// are empty while the Job runs.
	Clean   bool        `json:"clean,omitempty"`
	Reason  disk.Reason `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Step is where another attempt may resume.
	Step string `json:"step,omitempty"`
}

// maxResult is how much kubelet reads, in bytes; maxResultMessage is a quarter of it, since
// JSON may escape the message.
const maxResult, maxResultMessage = 4096, 1024

// Encode is the text of a result, cut to what kubelet reads.
func (r Result) Encode() []byte {
	r.Message = stowage.CutBytes(strings.ToValidUTF8(r.Message, "?"), maxResultMessage)
	for _, drop := range []func(){func() {}, func() { r.Step = "" }, func() { r.Message = "" }} {
		drop()
		if text, err := json.Marshal(r); err == nil && len(text) <= maxResult {
			return text
		}
	}
	return []byte("{}")
}

// Decode reads a result. Other text, because the container was killed while it wrote or never
// started, becomes the message of an otherwise zero result.
func Decode(text string) Result {
	var r Result
	if err := json.Unmarshal([]byte(text), &r); err != nil || !utf8.ValidString(r.Step) {
		return Result{Message: strings.TrimSpace(text)}
	}
	return r
}
