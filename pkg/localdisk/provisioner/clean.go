// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
)

// cleans runs cleans, and keeps those that wait.
type cleans struct {
	*runner[*clean]
	provisioner *Provisioner
}

// clean is one attempt at one disk.
type clean struct {
	attempt
	generation int64
	command    []string
	// byJob reports whether a Job cleans; request is in the report then.
	byJob    bool
	request  *stowage.CleaningRequest
	progress disk.Progress
}

func newCleans(p *Provisioner) *cleans {
	c := &cleans{provisioner: p}
	c.runner = newRunner(int(*p.settings.MaxCleaning), c.run, nil)
	return c
}

// begin starts the clean of a slot's disk.
func (c *cleans) begin(ctx context.Context, g *gathered, generation int64) error {
	class := g.conf.class(g.Key.Class)
	if class == nil {
		return errStale
	}
	job := &clean{attempt: attempt{gathered: g}, generation: generation, command: cleanCommand(class, g.Fact.Kind)}
	job.byJob = c.usesJob(job)
	c.start(ctx, job)
	return nil
}

// obstacle returns why a clean that has failed is not retried yet, and for how long; nil if
// it may start now.
func (c *cleans) obstacle(path string) (*disk.Problem, time.Duration) {
	left, f := c.backoff(path)
	if left <= 0 {
		return nil, 0
	}
	problem, known := errors.AsType[*disk.Problem](f.last)
	if !known || problem.Reason != disk.VolumeInUse && problem.Reason != disk.JobRefused {
		problem = disk.Problemf(disk.CleanFailed, "attempt %d failed: %v", f.attempts, f.last)
	}
	return problem, left
}

// retryNow lets failed cleans be retried at once: a new configuration may have removed the
// cause.
func (c *cleans) retryNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, f := range c.failed {
		f.next = time.Time{}
		c.failed[path] = f
	}
}

// run cleans, and enqueues the path.
func (c *cleans) run(ctx, own context.Context, job *clean) {
	p := c.provisioner
	watch := c.watch(ctx, job, job.timeLeft, func() { p.status.cleanHangs(ctx, job) })
	err := c.clean(own, job)
	watch.Stop()
	interrupted := errors.Is(err, errStale) || ctx.Err() != nil
	c.mu.Lock()
	c.end(ctx, job, err, interrupted)
	c.mu.Unlock()
	p.status.cleanEnded(ctx, job, err)
	if interrupted {
		p.queue.AddRateLimited(job.path)
		return
	}
	p.queue.Forget(job.path)
	p.queue.Add(job.path)
}

// describe returns the progress of the clean of a path, for the report; nil if none is running
// and none has failed.
func (c *cleans) describe(path string) *stowage.Cleaning {
	c.mu.Lock()
	defer c.mu.Unlock()
	job, h := c.history(path)
	if job == nil && h == (history{}) {
		return nil
	}
	d := &stowage.Cleaning{Attempts: h.attempts, LastError: h.lastError, StartTime: h.start}
	if job != nil {
		d.Method, d.Request = cleanerName(job.command), job.request
		d.DoneBytes, d.TotalBytes = job.progress.Done, job.progress.Total
	}
	return d
}

// clean removes the data of a disk. The disk's record is Cleaning before the first byte is
// changed, and Clean after the last.
func (c *cleans) clean(ctx context.Context, job *clean) error {
	p := c.provisioner
	if timeout := job.timeout(); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if err := c.confirm(ctx, job); errors.Is(err, errStale) {
		return err
	} else if err != nil { // not a failure of the clean, whose backoff is long
		klog.FromContext(ctx).Error(err, "Failed to determine whether a disk is in use; retrying to clean it", "path", job.path)
		return errStale
	}
	if !job.byJob { // a Job that an earlier configuration requested must not clean too
		if err := c.withdraw(job.Fact.Identity); err != nil {
			return err
		}
	}
	record, err := c.cleaningRecord(ctx, job)
	if err != nil {
		return err
	}
	if err := p.Records.Put(record); err != nil {
		return err
	}
	p.status.cleanStarted(job)
	klog.FromContext(ctx).V(2).Info("Cleaning a disk", "path", job.path, logkeys.Volume, klog.KRef("", job.volumeName()), "method", cleanerName(job.command))
	request := disk.CleanRequest{
		Target: *job.Fact, Mode: record.Mode, Volume: job.volumeName(), Command: job.command, Step: record.Step, Root: record.Root,
	}
	if err := c.cleaner(job).Clean(ctx, request, func(done disk.Progress) error { return c.progressed(job, &record, done) }); err != nil {
		return err
	}
	record.State, record.Step, record.Phase, record.Attachment = disk.Clean, "", "", job.Fact.Attachment
	if err := p.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Cleaned a disk", "path", job.path, logkeys.Volume, klog.KRef("", job.volumeName()), logkeys.Duration, time.Since(job.begun))
	return nil
}

// timeout returns how long an attempt may take; 0 for no limit.
func (job *clean) timeout() time.Duration {
	timeout := job.conf.class(job.Key.Class).CleanTimeout.Duration
	if timeout > 0 && job.byJob {
		timeout += jobGrace
	}
	return timeout
}

// confirm asks the API server, not the informer, whether anything can use the disk. It returns
// errStale unless its volume is being deleted and has the finalizer, or does not exist.
func (c *cleans) confirm(ctx context.Context, job *clean) error {
	p := c.provisioner
	if job.Volume == nil {
		if err := p.findUnmanagedPV(ctx, job.gathered); err != nil {
			return err
		}
	}
	if job.Volume == nil {
		if job.Record != nil {
			if err := p.confirmNoForeignPV(ctx, job.Fact.Identity); err != nil {
				return err
			}
		}
		return p.confirmGone(ctx, job.volumeName())
	}
	live, err := p.getPV(ctx, job.Volume.Name)
	if err != nil {
		return err
	}
	if live == nil || string(live.UID) != job.Volume.UID {
		return errStale
	}
	now, problem := localpv.VolumeOf(live, job.conf.directories)
	if problem != nil || !now.Deleting || !now.Finalized || now.Phase == disk.PhaseBound || now.Binding() || now.Policy != disk.Delete {
		return errStale
	}
	return nil
}

// cleaningRecord returns the record of a disk while it is cleaned.
func (c *cleans) cleaningRecord(ctx context.Context, job *clean) (disk.Record, error) {
	p := c.provisioner
	record := disk.Record{Identity: job.Fact.Identity, Kind: job.Fact.Kind, Policy: disk.Delete}
	if job.Record != nil {
		record = *job.Record
	}
	root, err := p.rootOf(ctx, job.gathered)
	if err != nil {
		return record, err
	}
	if record.State != disk.Cleaning {
		record.Step = ""
	}
	record.Key, record.HostPath, record.Mode, record.Root = job.Key, job.path, job.mode(), root
	record.State, record.Generation, record.Filesystem = disk.Cleaning, job.generation, nil
	record.Cluster, record.Phase, record.Missed = p.Cluster, disk.PhaseReleased, time.Time{}
	record.Volume, record.UID, record.Attachment, record.Accepted = "", "", "", false
	if v := job.Volume; v != nil {
		record.Volume, record.UID, record.Policy = v.Name, v.UID, v.Policy
	}
	return record, nil
}

// progressed stores the progress of a clean. A later attempt can resume there when it returns.
func (c *cleans) progressed(job *clean, record *disk.Record, p disk.Progress) error {
	c.mu.Lock()
	step := job.progress.Step
	job.progress, job.alive = p, time.Now()
	c.mu.Unlock()
	if p.Step == step {
		return nil
	}
	record.Step = p.Step
	if err := c.provisioner.Records.Put(*record); err != nil {
		return fmt.Errorf("record the progress of the clean: %w", err)
	}
	return nil
}

// cleanCommand returns the command that cleans a disk of the class.
func cleanCommand(class *provisioner.Class, kind disk.Kind) []string {
	if kind == disk.Device {
		return class.BlockCleanerCommand
	}
	return class.FSCleanerCommand
}

// cleanerName returns the name of a command in metrics and events.
func cleanerName(command []string) string {
	if len(command) == 0 {
		return "remove files"
	}
	return strings.Join(command, " ")
}

// withdraw prevents Jobs from cleaning a disk that is published or cleaned in process.
func (c *cleans) withdraw(identity disk.Identity) error {
	if c.provisioner.Tickets == nil {
		return nil
	}
	return c.provisioner.Tickets.Withdraw(identity)
}

// usesJob reports whether a Job cleans: if the configuration has it, and there is a volume in
// which the controller can verify the request.
func (c *cleans) usesJob(job *clean) bool {
	p := c.provisioner
	step := ""
	if job.Record != nil {
		step = job.Record.Step
	}
	wanted := job.conf.UseJobForCleaning && p.Tickets != nil && p.Reports != nil
	return wanted && job.Volume != nil && !cleanjob.InProcess(job.command, step)
}
