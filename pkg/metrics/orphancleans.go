// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "k8s.io/component-base/metrics"

const orphanCleansSubsystem = "orphan_cleans"

var (
	orphanCleansWaiting = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: orphanCleansSubsystem, Name: "waiting",
		Help:           "Disks without a volume that wait to be cleaned because orphanCleans.perHour is used up; 0 on a replica that stands by.",
		StabilityLevel: metrics.ALPHA,
	})
	orphanCleansAllowed = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: orphanCleansSubsystem, Name: "allowed_total",
		Help:           "Disks without a volume that the controller allowed to be cleaned.",
		StabilityLevel: metrics.ALPHA,
	})
)

// SetOrphanCleansWaiting records how many disks wait for the limit.
func SetOrphanCleansWaiting(waiting int) { orphanCleansWaiting.Set(float64(waiting)) }

// CountOrphanCleansAllowed records that disks without a volume may be cleaned.
func CountOrphanCleansAllowed(disks int) { orphanCleansAllowed.Add(float64(disks)) }
