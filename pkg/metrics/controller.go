// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "time"

// Outcomes of CountNodeLossRelease and CountNodeLossRemoval.
const (
	ReleaseDone = "released"
	RemovalDone = "removed"
	LossDryRun  = "dry_run"
)

// Outcomes of CountInPlaceClaim.
const (
	InPlaceBound = "bound"
	InPlaceLost  = "lost"
)

var (
	controllerLeading = controller.gauge("leading",
		"1 while this replica leads, 0 while it is on standby.")
	silentProvisioners = controller.gauge("silent_provisioners",
		"Nodes with a LocalDiskReport whose provisioner does not renew its Lease; 0 on a standby replica.")
	nodeLossVolumes = controller.gaugeVec("lost_volumes",
		"Lost volumes, by cause (NodeGone, OutOfService, DiskMissing, DiskReplaced, DiskFailing) and state (Waiting for the delay, Kept by policy, InvalidNodeLoss, ClaimNotRecreatable, Throttled by the budget, Releasing, Removing, Retained by reclaim policy, Unidentified, Blocked by another actor).",
		"cause", "state")
	nodeLossReleases = controller.counterVec("claim_releases_total",
		"Claims that were released, by outcome: released, or dry_run.",
		"outcome")
	nodeLossRemovals = controller.counterVec("lost_volumes_removed_total",
		"Lost volumes that were removed, each with a tombstone, by outcome: removed, or dry_run.",
		"outcome")
	tombstonesRemoved = controller.counter("tombstones_removed_total",
		"Tombstones that were removed because their disks were cleaned and published again.")
	nodeLossErrors = controller.counter("node_loss_errors_total",
		"Failed reconciliations of lost volumes; each is retried.")
	nodeLossDuplicates = controller.gauge("duplicate_identities",
		"Disk identities that several nodes report at once.")
	cleaningJobsRunning = controller.gauge("cleaning_jobs_running",
		"Cleaning Jobs that have not ended; 0 on a standby replica.")
	cleaningJobsCreated = controller.counter("cleaning_jobs_created_total",
		"Cleaning Jobs that were created.")
	cleaningJobsSucceeded = controller.counter("cleaning_jobs_succeeded_total",
		"Cleaning Jobs that succeeded.")
	cleaningJobsFailed = controller.counterVec("cleaning_jobs_failed_total",
		"Cleaning Jobs that failed, by reason as in the node's LocalDiskReport; JobDeleted if they were deleted before they ended.",
		"reason")
	orphanCleansWaiting = controller.gauge("orphan_cleans_waiting",
		"Disks without a volume that wait because orphanCleans.perHour is used up; 0 on a standby replica.")
	orphanCleansAllowed = controller.counter("orphan_cleans_allowed_total",
		"Disks without a volume that the controller allowed to be cleaned.")
	claimsWaiting = controller.gauge("bind_now_waiting_claims",
		"Claims that are to be bound without a pod and wait for a volume, a node or another attempt; 0 on a standby replica.")
	claimsBound = controller.histogram("bind_now_duration_seconds",
		"Time from the observation of a claim that is to be bound without a pod until it is bound.",
		[]float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800})
	inPlaceClaims = controller.counterVec("in_place_claims_total",
		"Claims that were bound or lost where the controller works instead of the PV controller, by outcome: bound, lost.",
		"outcome")
	inPlaceConflicts = controller.counterVec("in_place_conflicts_total",
		"Writes that were refused because the object has a newer version, by resource; each is decided again.",
		"resource")
	inPlaceDuration = controller.histogram("in_place_bind_duration_seconds",
		"Time from the creation of a claim that waits for no pod until it is bound. The start is known to the second.",
		[]float64{1, 2, 5, 10, 30, 60, 300, 1800})
	inPlaceStopped = controller.gauge("in_place_stopped",
		"1 if this replica leads and has stopped binding claims because another PV controller is running, else 0.")
)

// RegisterController registers the controller's metrics; it may be called any number of times.
func RegisterController() { controller.register() }

// SetControllerLeading records whether this replica leads.
func SetControllerLeading(leading bool) { controllerLeading.Set(oneIf(leading)) }

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

// SetClaimsWaitingForBinding records how many claims wait that are bound without a pod.
func SetClaimsWaitingForBinding(claims int) { claimsWaiting.Set(float64(claims)) }

// ObserveClaimBoundWithoutPod records that a claim was bound without a pod.
func ObserveClaimBoundWithoutPod(took time.Duration) { claimsBound.Observe(took.Seconds()) }

// CountInPlaceClaim records the outcome of a claim: InPlaceBound or InPlaceLost.
func CountInPlaceClaim(outcome string) { inPlaceClaims.WithLabelValues(outcome).Inc() }

// CountInPlaceConflict records that a write of an object of the resource was refused.
func CountInPlaceConflict(resource string) { inPlaceConflicts.WithLabelValues(resource).Inc() }

// ObserveInPlaceBind records how long a claim that waits for no pod was not bound.
func ObserveInPlaceBind(took time.Duration) { inPlaceDuration.Observe(took.Seconds()) }

// SetInPlaceStopped records whether another PV controller has stopped the binding of claims.
func SetInPlaceStopped(stopped bool) { inPlaceStopped.Set(oneIf(stopped)) }
