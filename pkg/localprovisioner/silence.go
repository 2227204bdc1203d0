// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localprovisioner

import (
	"context"
	"path"
	"time"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/local/disk"
	"stowage.dev/stowage/pkg/local/slot"
)

const (
	// silence is how long a clean that tells how far it is may say nothing.
	silence = 10 * time.Minute
	// timeoutGrace is how long after its timeout a clean may take to end.
	timeoutGrace = time.Minute
)

// watch sees to it that a clean whose disk does not answer any more, which nothing can
// end, does not keep others from beginning: it stays under way, and is not counted
// from then on. Stop the timer when the clean has ended.
func (c *cleans) watch(ctx context.Context, job *clean) *time.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(job.patience(), func() {
		c.mu.Lock()
		left := job.patience()
		gone := c.byPath[job.path] != job || ctx.Err() != nil
		switch {
		case gone:
		case left > 0:
			timer.Reset(left)
		default:
			job.uncounted = true
			c.running--
			c.fill(ctx)
		}
		c.mu.Unlock()
		if !gone && left <= 0 {
			c.agent.told.silent(ctx, job)
		}
	})
	return timer
}

// forever is longer than any clean takes.
const forever = 365 * 24 * time.Hour

// patience is for how long a clean is still waited for. The caller holds mu.
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

// tells says whether a clean tells how far it is. Commands do not, nor does a drive
// that erases itself, nor a Job.
func (job *clean) tells() bool {
	return !job.byJob && (len(job.command) == 0 || job.command[0] != string(provisioner.MethodHDParm) && !path.IsAbs(job.command[0]))
}

// silent tells of a clean that is not waited for any more.
func (t *told) silent(ctx context.Context, job *clean) {
	problem := disk.Problemf(disk.TimedOut, "cleaning %s began %s ago, and gives no sign of life: the disk or its driver may be failing",
		job.path, time.Since(job.begun).Round(time.Second))
	klog.FromContext(ctx).Error(problem, "A clean hangs, and others are begun in its place")
	t.decided(job.gathered, slot.Decision{Do: slot.None, State: slot.Cleaning, Problem: problem})
}
