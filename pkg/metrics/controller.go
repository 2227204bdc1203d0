// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const controllerSubsystem = "controller"

// Outcomes of CountNodeLossRelease and CountNodeLossRemoval.
const (
	ReleaseDone = "released"
	RemovalDone = "removed"
	LossDryRun  = "dry_run"
)

var (
	controllerLeading = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "leading",
		Help:           "1 while this replica leads, 0 while it is on standby.",
		StabilityLevel: metrics.ALPHA,
	})
	silentProvisioners = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "silent_provisioners",
		Help:           "Nodes with a LocalDiskReport whose provisioner does not renew its Lease, so that the report may be out of date; 0 on a standby replica.",
		StabilityLevel: metrics.ALPHA,
	})
	nodeLossVolumes = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "lost_volumes",
		Help:           "Lost volumes, by cause (NodeGone, OutOfService, DiskMissing, DiskReplaced, DiskFailing) and state (Waiting for the delay, Kept by policy, InvalidNodeLoss, ClaimNotRecreatable, Throttled by the budget, Releasing, Removing, Retained by reclaim policy, Unidentified, Blocked by another actor).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"cause", "state"})
	nodeLossReleases = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "claim_releases_total",
		Help:           "Claims that were released, by outcome: released, or dry_run (would have been released).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	nodeLossRemovals = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "lost_volumes_removed_total",
		Help:           "Lost volumes that were removed, each with a tombstone, by outcome: removed, or dry_run (would have been removed).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	tombstonesRemoved = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "tombstones_removed_total",
		Help:           "Tombstones that were removed because their disks were cleaned and published again.",
		StabilityLevel: metrics.ALPHA,
	})
	nodeLossErrors = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "node_loss_errors_total",
		Help:           "Failed reconciliations of lost volumes; each is retried.",
		StabilityLevel: metrics.ALPHA,
	})

	nodeLossDuplicates = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "duplicate_identities",
		Help:           "Disk identities that several nodes report at once. The loss of a node removes no volume of such a disk.",
		StabilityLevel: metrics.ALPHA,
	})
	cleaningJobsRunning = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "cleaning_jobs_running",
		Help:           "Cleaning Jobs that have not ended; 0 on a standby replica.",
		StabilityLevel: metrics.ALPHA,
	})
	cleaningJobsCreated = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "cleaning_jobs_created_total",
		Help:           "Cleaning Jobs that were created.",
		StabilityLevel: metrics.ALPHA,
	})
	cleaningJobsSucceeded = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "cleaning_jobs_succeeded_total",
		Help:           "Cleaning Jobs that succeeded.",
		StabilityLevel: metrics.ALPHA,
	})
	cleaningJobsFailed = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "cleaning_jobs_failed_total",
		Help:           "Cleaning Jobs that failed, by reason as in the node's LocalDiskReport; JobDeleted if they were deleted before they ended.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	orphanCleansWaiting = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "orphan_cleans_waiting",
		Help:           "Disks without a volume that wait to be cleaned because orphanCleans.perHour is used up; 0 on a standby replica.",
		StabilityLevel: metrics.ALPHA,
	})
	orphanCleansAllowed = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "orphan_cleans_allowed_total",
		Help:           "Disks without a volume that the controller allowed to be cleaned.",
		StabilityLevel: metrics.ALPHA,
	})

	registerController sync.Once
)

// RegisterController registers the controller's metrics; it may be called any number of times.
func RegisterController() {
	registerController.Do(func() {
		legacyregistry.MustRegister(controllerLeading, silentProvisioners, nodeLossVolumes, nodeLossReleases, nodeLossRemovals, tombstonesRemoved, nodeLossErrors, nodeLossDuplicates,
			cleaningJobsRunning, cleaningJobsCreated, cleaningJobsSucceeded, cleaningJobsFailed, orphanCleansWaiting, orphanCleansAllowed)
	})
}

// SetControllerLeading records whether this replica leads.
func SetControllerLeading(leading bool) {
	value := 0.0
	if leading {
		value = 1
	}
	controllerLeading.Set(value)
}

// SetSilentProvisioners records how many provisioners do not renew their Lease.
func SetSilentProvisioners(n int) { silentProvisioners.Set(float64(n)) }

// AddNodeLossVolumes changes the number of lost volumes.
func AddNodeLossVolumes(cause, state string, more float64) {
	nodeLossVolumes.WithLabelValues(cause, state).Add(more)
}

// CountNodeLossRelease records that a claim was released, or would have been in a dry run.
func CountNodeLossRelease(outcome string) { nodeLossReleases.WithLabelValues(outcome).Inc() }

// CountNodeLossRemoval records that a lost volume was removed, or would have been in a dry run.
func CountNodeLossRemoval(outcome string) { nodeLossRemovals.WithLabelValues(outcome).Inc() }

// CountTombstonesRemoved records that resolved tombstones were removed.
func CountTombstonesRemoved(n int) { tombstonesRemoved.Add(float64(n)) }

// SetNodeLossDuplicates records how many disk identities several nodes report at once.
func SetNodeLossDuplicates(n int) { nodeLossDuplicates.Set(float64(n)) }

// CountNodeLossError records that the reconciliation of a lost volume failed.
func CountNodeLossError() { nodeLossErrors.Inc() }

// AddCleaningJobsRunning changes how many cleaning Jobs have not ended.
func AddCleaningJobsRunning(more float64) { cleaningJobsRunning.Add(more) }

// CountCleaningJobCreated records that a cleaning Job was created.
func CountCleaningJobCreated() { cleaningJobsCreated.Inc() }

// CountCleaningJobSucceeded records that a cleaning Job succeeded.
func CountCleaningJobSucceeded() { cleaningJobsSucceeded.Inc() }

// CountCleaningJobFailed records that a cleaning Job failed. Reasons come from
// pods: one that is not a short word counts as Other.
func CountCleaningJobFailed(reason string) {
	cleaningJobsFailed.WithLabelValues(wordOr(reason, "Other")).Inc()
}

// wordOr returns text if it is one short word of letters and digits, else otherwise.
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

// SetOrphanCleansWaiting records how many disks wait for the limit.
func SetOrphanCleansWaiting(waiting int) { orphanCleansWaiting.Set(float64(waiting)) }

// CountOrphanCleansAllowed records that disks without a volume may be cleaned.
func CountOrphanCleansAllowed(disks int) { orphanCleansAllowed.Add(float64(disks)) }
