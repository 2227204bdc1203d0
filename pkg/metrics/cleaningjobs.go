// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "k8s.io/component-base/metrics"

const cleaningJobsSubsystem = "cleaning_jobs"

var (
	cleaningJobsRunning = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: cleaningJobsSubsystem, Name: "running",
		Help:           "Cleaning Jobs that have not ended; 0 on a replica that stands by.",
		StabilityLevel: metrics.ALPHA,
	})
	cleaningJobsCreated = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: cleaningJobsSubsystem, Name: "created_total",
		Help:           "Cleaning Jobs that were created.",
		StabilityLevel: metrics.ALPHA,
	})
	cleaningJobsSucceeded = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: cleaningJobsSubsystem, Name: "succeeded_total",
		Help:           "Cleaning Jobs that succeeded.",
		StabilityLevel: metrics.ALPHA,
	})
	cleaningJobsFailed = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: cleaningJobsSubsystem, Name: "failed_total",
		Help:           "Cleaning Jobs that failed, by reason as in the node's LocalDiskReport; JobDeleted if they were deleted before they had ended.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
)

// AddCleaningJobsRunning changes how many cleaning Jobs have not ended.
func AddCleaningJobsRunning(more float64) { cleaningJobsRunning.Add(more) }

// CountCleaningJobCreated records that a cleaning Job was created.
func CountCleaningJobCreated() { cleaningJobsCreated.Inc() }

// CountCleaningJobSucceeded records that a cleaning Job succeeded.
func CountCleaningJobSucceeded() { cleaningJobsSucceeded.Inc() }

// CountCleaningJobFailed records that a cleaning Job failed. What is no word counts as
// Other: reasons come from pods.
func CountCleaningJobFailed(reason string) {
	cleaningJobsFailed.WithLabelValues(wordOr(reason, "Other")).Inc()
}

// wordOr is a text if it is one word of letters and digits, and not long, else another one.
func wordOr(text, otherwise string) string {
	const most = 64
	if text == "" || len(text) > most {
		return otherwise
	}
	for _, r := range text {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return otherwise
		}
	}
	return text
}
