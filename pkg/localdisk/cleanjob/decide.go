// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Move is the one thing to do about a request.
type Move string

// The moves.
const (
	// Rest: it is answered for good.
	Rest Move = "Rest"
	// Follow: there is its Job; Look at it.
	Follow Move = "Follow"
	// Clear: something of another attempt at the same volume has not ended. Delete its
	// Job, and wait until its pod is gone.
	Clear Move = "Clear"
	// Miss: its Job was made and is not seen. Make sure that it is gone.
	Miss Move = "Miss"
	// Begin: Approve it, and make its Job.
	Begin Move = "Begin"
)

// Answered is what the report says of a request already; zero if nothing.
type Answered struct {
	// Final says that nothing more comes of it, Made that its Job was seen.
	Final, Made bool
}

// Seen are the Jobs and pods of a volume, of all attempts.
type Seen struct {
	Jobs []*batchv1.Job
	Pods []*corev1.Pod
}

// Decide says what to do about a request. Two Jobs of a volume never run at the same
// time: one begins when all others, and their pods, have ended.
func Decide(r Request, answered Answered, seen Seen) Move {
	mine := Name(r.VolumeUID, r.Attempt)
	switch {
	case answered.Final:
		return Rest
	case seen.Job(mine) != nil:
		return Follow
	case answered.Made:
		return Miss
	case len(seen.Others(mine)) > 0 || len(seen.left()) > 0:
		return Clear
	default:
		return Begin
	}
}

// Job is the Job of a name; nil if there is none.
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

// left are the pods that have not ended: of a Job that was deleted without waiting for
// them, say.
func (s *Seen) left() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
}

// Ended says whether a Job has ended, and all of its pods with it.
func Ended(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}
