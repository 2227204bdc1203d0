// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Move is the next action for a request.
type Move string

// The moves.
const (
	// Rest: it has its final answer.
	Rest Move = "Rest"
	// Follow: its Job exists; see StatusOf.
	Follow Move = "Follow"
	// Clear: something of another attempt at the same volume has not ended. Delete its
	// Job, and wait until its pod is gone.
	Clear Move = "Clear"
	// VerifyGone: its Job was created and does not appear. Make sure that it is gone.
	VerifyGone Move = "VerifyGone"
	// Begin: Approve it, and make its Job.
	Begin Move = "Begin"
)

// Answered is what the report has of a request already; zero if nothing.
type Answered struct {
	// Final reports whether the request has its final answer, Made whether its Job was observed.
	Final, Made bool
}

// Seen are the Jobs and pods of a volume, of all attempts.
type Seen struct {
	Jobs []*batchv1.Job
	Pods []*corev1.Pod
}

// Decide returns the next action for a request. Two Jobs of a volume never run at the same time:
// one starts after all others, and their pods, have ended.
func Decide(r Request, answered Answered, seen Seen) Move {
	mine := Name(r.VolumeUID, r.Attempt)
	switch {
	case answered.Final:
		return Rest
	case seen.Job(mine) != nil:
		return Follow
	case answered.Made:
		return VerifyGone
	case len(seen.Others(mine)) > 0 || len(seen.left()) > 0:
		return Clear
	default:
		return Begin
	}
}

// Job returns the Job with a name; nil if there is none.
func (s *Seen) Job(name string) *batchv1.Job {
	for _, job := range s.Jobs {
		if job.Name == name {
			return job
		}
	}
	return nil
}

// Others are the Jobs but the one of a name that have not ended.
func (s *Seen) Others(name string) []*batchv1.Job {
	return slices.DeleteFunc(slices.Clone(s.Jobs), func(job *batchv1.Job) bool { return job.Name == name || Ended(job) })
}

// Of are the pods of a Job.
func (s *Seen) Of(job string) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(pod *corev1.Pod) bool { return pod.Labels[batchv1.JobNameLabel] != job })
}

// left returns the pods that have not ended, such as those of a Job that was deleted without
// waiting for them.
func (s *Seen) left() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
}

// Ended reports whether a Job and all of its pods have ended.
func Ended(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}
