// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"path"
	"time"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/apis/provisioner"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// silence is how long a clean that tells how far it is may say nothing.
	silence = 10 * time.Minute
	// timeoutGrace is how long after its timeout a clean may take to end.
	timeoutGrace = time.Minute
)

// forever is longer than any clean takes.
const forever = 365 * 24 * time.Hour

// patience is how much longer a clean may take until it makes progress or ends. The caller
// holds mu.
func (job *clean) patience() time.Duration {
	left := forever
	if timeout := job.timeout(); timeout > 0 {
		left = timeout + timeoutGrace - time.Since(job.begun)
	}
	if job.tells() {
		left = min(left, silence-time.Since(job.alive))
	}
	return left
}

// tells reports whether a clean reports its progress. Commands do not, nor does a drive
// that erases itself, nor a Job.
func (job *clean) tells() bool {
	return !job.byJob && (len(job.command) == 0 || job.command[0] != string(provisioner.MethodHDParm) && !path.IsAbs(job.command[0]))
}

// silent tells of a clean that is not waited for any more.
func (t *told) silent(ctx context.Context, job *clean) {
	problem := disk.Problemf(disk.TimedOut, "cleaning %s began %s ago, and gives no sign of life: the disk or its driver may be failing",
		job.path, time.Since(job.begun).Round(time.Second))
	klog.FromContext(ctx).Error(problem, "A clean hangs, and others are begun in its place")
	t.decided(job.gathered, decide.Decision{Do: decide.None, State: stowage.EntryCleaning, Problem: problem})
}
