// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/loop"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/metrics"
)

// countJobs returns a handler that updates the metrics of Jobs. Jobs that ended while no
// controller ran are not counted.
func (c *Controller) countJobs() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if job, ok := object.(*batchv1.Job); ok && !cleanjob.Ended(job) {
				metrics.AddCleaningJobsRunning(1)
			}
		},
		UpdateFunc: func(old, object any) {
			before, ok := old.(*batchv1.Job)
			job, is := object.(*batchv1.Job)
			if !ok || !is {
				return
			}
			if before.UID != job.UID { // the deletion of the previous Job was not observed
				c.countGone(before)
				before = &batchv1.Job{}
				metrics.AddCleaningJobsRunning(1)
			}
			if !cleanjob.Ended(before) && cleanjob.Ended(job) {
				c.countEnded(job)
			}
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if job, ok := object.(*batchv1.Job); ok {
				c.countGone(job)
			}
		},
	}
}

// countGone counts a deleted Job.
func (c *Controller) countGone(job *batchv1.Job) {
	if !cleanjob.Ended(job) {
		metrics.AddCleaningJobsRunning(-1)
		metrics.CountCleaningJobFailed(string(cleanjob.JobDeleted))
	}
}

// countEnded counts a Job that just ended.
func (c *Controller) countEnded(job *batchv1.Job) {
	metrics.AddCleaningJobsRunning(-1)
	observed := cleanjob.Seen{Pods: loop.List[corev1.Pod](c.pods, byVolume, job.Labels[wellknown.CleaningLabel])}
	switch standing := cleanjob.StatusOf(job, observed.Of(job.Name)); {
	case standing.State == stowage.CleaningJobSucceeded:
		metrics.CountCleaningJobSucceeded()
	case standing.Problem != nil:
		metrics.CountCleaningJobFailed(string(standing.Problem.Reason))
	default:
		metrics.CountCleaningJobFailed(string(cleanjob.JobFailed))
	}
}
