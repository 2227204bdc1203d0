// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"path"
	"time"

	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// progressTimeout is how long a clean that reports progress may make none.
	progressTimeout = 10 * time.Minute
	// timeoutGrace is how long a clean may take to stop after its timeout.
	timeoutGrace = time.Minute
	// forever is longer than any clean.
	forever = 365 * 24 * time.Hour
)

// timeLeft returns how much longer a clean may take until it makes progress or ends. The caller
// holds mu.
func (job *clean) timeLeft() time.Duration {
	left := forever
	if job.limit > 0 {
		left = job.limit + timeoutGrace - time.Since(job.begun)
	}
	if job.reportsProgress() {
		left = min(left, progressTimeout-time.Since(job.alive))
	}
	return left
}

// reportsProgress reports whether a clean reports its progress. Commands, drives that erase
// themselves and Jobs do not.
func (job *clean) reportsProgress() bool {
	return !job.byJob && (len(job.command) == 0 || job.command[0] != string(provisioner.MethodHDParm) && !path.IsAbs(job.command[0]))
}

// reportHung reports a clean that does not count against the limit any more.
func (c *Cleans) reportHung(ctx context.Context, job *clean) {
	problem := disk.Problemf(disk.TimedOut, "cleaning %s began %s ago, and makes no progress: the disk or its driver may be failing",
		job.Path, time.Since(job.begun).Round(time.Second))
	klog.FromContext(ctx).Error(problem, "A clean hangs; starting others")
	c.Status.Decided(job.Slot, decide.Decision{Do: decide.None, State: stowage.EntryCleaning, Problem: problem})
}
