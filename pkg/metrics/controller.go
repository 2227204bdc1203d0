// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	controllerSubsystem = "controller"
	nodeLossSubsystem   = "node_loss"
)

// Outcomes of CountNodeLossRelease and CountNodeLossRemoval.
const (
	ReleaseDone = "released"
	RemovalDone = "removed"
	LossDryRun  = "dry_run"
)

var (
	controllerLeading = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "leading",
		Help:           "1 while this replica leads and works, 0 while it stands by.",
		StabilityLevel: metrics.ALPHA,
	})
	silentProvisioners = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "silent_provisioners",
		Help:           "Nodes with a LocalDiskReport whose provisioner does not renew its Lease, so that the report may be out of date; 0 on a replica that stands by.",
		StabilityLevel: metrics.ALPHA,
	})
	nodeLossVolumes = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: nodeLossSubsystem, Name: "volumes",
		Help:           "Volumes that cannot be reached, by cause (NodeGone, OutOfService, DiskMissing, DiskReplaced, DiskFailing) and by how they stand (Waiting for the delay, Kept by policy, InvalidNodeLoss, ClaimNotRecreatable, Throttled by the budget, Releasing, Removing, Retained by reclaim policy, Unidentified, SomebodyElse has to act first).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"cause", "state"})
	nodeLossReleases = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: nodeLossSubsystem, Name: "releases_total",
		Help:           "Claims that were released, by outcome: released, or dry_run if they only would have been.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	nodeLossRemovals = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: nodeLossSubsystem, Name: "volumes_removed_total",
		Help:           "Lost volumes that were removed, each with a tombstone, by outcome: removed, or dry_run if they only would have been.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	nodeLossSettled = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: nodeLossSubsystem, Name: "tombstones_settled_total",
		Help:           "Tombstones that were taken away, because their disks were cleaned and published again.",
		StabilityLevel: metrics.ALPHA,
	})
	nodeLossErrors = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: nodeLossSubsystem, Name: "errors_total",
		Help:           "Steps for a lost volume that failed and will be tried again.",
		StabilityLevel: metrics.ALPHA,
	})

	nodeLossDuplicates = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: nodeLossSubsystem, Name: "duplicate_identities",
		Help:           "Disk identities that several nodes report at once. The loss of a node removes no volume of such a disk.",
		StabilityLevel: metrics.ALPHA,
	})

	registerController sync.Once
)

// RegisterController makes the controller's metrics known.
func RegisterController() {
	registerController.Do(func() {
		legacyregistry.MustRegister(controllerLeading, silentProvisioners, nodeLossVolumes, nodeLossReleases, nodeLossRemovals, nodeLossSettled, nodeLossErrors, nodeLossDuplicates,
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

// AddNodeLossVolumes changes how many volumes cannot be reached.
func AddNodeLossVolumes(cause, state string, more float64) {
	nodeLossVolumes.WithLabelValues(cause, state).Add(more)
}

// CountNodeLossRelease records that a claim was released, or would have been.
func CountNodeLossRelease(outcome string) { nodeLossReleases.WithLabelValues(outcome).Inc() }

// CountNodeLossRemoval records that a lost volume was removed, or would have been.
func CountNodeLossRemoval(outcome string) { nodeLossRemovals.WithLabelValues(outcome).Inc() }

// CountNodeLossTombstonesSettled records that tombstones were taken away.
func CountNodeLossTombstonesSettled(n int) { nodeLossSettled.Add(float64(n)) }

// SetNodeLossDuplicates records how many disk identities several nodes report at once.
func SetNodeLossDuplicates(n int) { nodeLossDuplicates.Set(float64(n)) }

// CountNodeLossError records that a step failed.
func CountNodeLossError() { nodeLossErrors.Inc() }
