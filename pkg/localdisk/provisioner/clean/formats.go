// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
)

// mkfsTimeout limits an attempt to make a file system. ext3 has inode tables to write, about 1.6 %
// of the disk.
const mkfsTimeout = 6 * time.Hour

// Maker makes the file systems of devices.
type Maker interface {
	// MakeFilesystem makes a file system on a device that is blank, or where an earlier call with
	// the same format was interrupted. When it returns nil, the file system is on the disk. Errors
	// that require an administrator are *disk.Problem.
	MakeFilesystem(ctx context.Context, device disk.Fact, format disk.Format) error
}

// Formats makes file systems, as many at a time as disks are cleaned.
type Formats struct {
	*runner[*formatting]
	Config
}

// formatting is one attempt to make the file system Formatting of a record.
type formatting struct {
	attempt
	record disk.Record
}

// NewFormats returns formats that are made as Start requests them.
func NewFormats(config Config) *Formats {
	f := &Formats{Config: config}
	f.runner = newRunner(int(*config.Settings().MaxCleaning), f.run, nil)
	return f
}

// Start starts or queues the mkfs of a slot's disk, unless there is one. The record is on the disk
// of the node.
func (f *Formats) Start(ctx context.Context, s *decide.Slot, record disk.Record) {
	f.start(ctx, &formatting{attempt: attempt{Slot: s}, record: record})
}

// Obstacle returns why a mkfs that has failed is not repeated yet, and for how long; nil if it may
// start now.
func (f *Formats) Obstacle(path string) (*disk.Problem, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := f.failed[path]
	left := time.Until(failed.next)
	if left <= 0 {
		return nil, 0
	}
	if problem, known := errors.AsType[*disk.Problem](failed.last); known {
		return problem, left
	}
	return disk.Problemf(disk.MkfsFailed, "attempt %d to make a file system failed: %v", failed.attempts, failed.last), left
}

// run makes a file system, and enqueues the path.
func (f *Formats) run(ctx, own context.Context, job *formatting) {
	logger, format := klog.FromContext(ctx).WithValues("path", job.Path, "filesystem", job.record.Formatting), *job.record.Formatting
	watch := f.watch(ctx, job, func() time.Duration { return mkfsTimeout + timeoutGrace - time.Since(job.begun) }, func() { f.reportHung(ctx, job) })
	logger.V(2).Info("Making a file system")
	limited, cancel := context.WithTimeout(own, mkfsTimeout)
	defer cancel()
	err := f.Maker.MakeFilesystem(limited, *job.Fact, format)
	if err == nil {
		job.record.Filesystem, job.record.Formatting = &format, nil
		err = f.Records.Put(job.record)
	}
	watch.Stop()
	interrupted := ctx.Err() != nil
	switch {
	case err == nil:
		logger.V(2).Info("Made a file system", logkeys.Duration, time.Since(job.begun))
	case !interrupted:
		logger.Error(err, "Failed to make a file system; retrying")
	}
	f.mu.Lock()
	f.end(ctx, job, err, interrupted)
	f.mu.Unlock()
	f.Queue.Add(job.Path)
}

// reportHung reports a mkfs that does not count against the limit any more.
func (f *Formats) reportHung(ctx context.Context, job *formatting) {
	problem := disk.Problemf(disk.TimedOut, "mkfs of %s began %s ago and has not ended: the disk or its driver may be failing", job.Path, time.Since(job.begun).Round(time.Second))
	klog.FromContext(ctx).Error(problem, "A mkfs hangs; starting others")
	f.Status.Decided(job.Slot, decide.Decision{Do: decide.None, State: stowage.EntryPending, Problem: problem})
}
