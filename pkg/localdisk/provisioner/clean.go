// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
)

// cleans are the cleans that run or wait.
type cleans struct {
	*runner[*clean]
	provisioner *Provisioner
}

// clean is one attempt at one disk.
type clean struct {
	attempt
	generation int64
	command    []string
	// byJob says that a Job is to clean; request is what the report asks for then.
	byJob    bool
	request  *stowage.CleaningRequest
	progress disk.Progress
}

func newCleans(a *Provisioner) *cleans {
	c := &cleans{provisioner: a}
	c.runner = newRunner(a.settings.MaxCleaning, c.run, nil)
	return c
}

// begin starts the clean of a slot's disk.
func (c *cleans) begin(ctx context.Context, g *gathered, generation int64) error {
	class := g.conf.classes[g.Key.Class]
	if class == nil {
		return errStale
	}
	job := &clean{attempt: attempt{gathered: g}, generation: generation, command: cleanCommand(class, g.Fact.Kind)}
	job.byJob = c.provisioner.usesJob(job)
	c.start(ctx, job)
	return nil
}

// hasten lets cleans that have failed be tried again at once: perhaps what made them
// fail is gone.
func (c *cleans) retryNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, f := range c.failed {
		f.next = time.Time{}
		c.failed[path] = f
	}
}

// run cleans, and has the slot decided about again.
func (c *cleans) run(ctx, own context.Context, job *clean) {
	a := c.provisioner
	watch := c.watch(ctx, job, job.timeLeft, func() { a.status.cleanHangs(ctx, job) })
	err := a.clean(own, job)
	watch.Stop()
	again := errors.Is(err, errStale) || ctx.Err() != nil
	c.mu.Lock()
	c.end(ctx, job, err, again)
	c.mu.Unlock()
	a.status.cleanEnded(ctx, job, err)
	switch {
	case again:
		a.queue.AddRateLimited(job.path)
	default:
		a.queue.Forget(job.path)
		a.queue.Add(job.path)
	}
}

// describe is how the clean of a slot's disk goes, for the report; nil if there is none
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

// clean removes the data of a disk. Its record says Cleaning before the first byte is
// changed, and Clean after the last.
func (p *Provisioner) clean(ctx context.Context, job *clean) error {
	if timeout := job.timeout(); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if err := p.confirm(ctx, job); errors.Is(err, errStale) {
		return err
	} else if err != nil { // no failure of the clean, which would be put off for long
		klog.FromContext(ctx).Error(err, "Failed to determine whether a disk is in use; retrying to clean it", "path", job.path)
		return errStale
	}
	if !job.byJob { // nor may a Job that an earlier configuration has asked for
		if err := p.withdraw(job.Fact.Identity); err != nil {
			return err
		}
	}
	record, err := p.cleaningRecord(ctx, job)
	if err != nil {
		return err
	}
	if err := p.Records.Put(record); err != nil {
		return err
	}
	p.status.cleanStarted(job)
	klog.FromContext(ctx).V(2).Info("Cleaning", "path", job.path, logkeys.Volume, klog.KRef("", job.volumeName()), "method", cleanerName(job.command))
	request := disk.CleanRequest{
		Target: *job.Fact, Mode: record.Mode, Volume: job.volumeName(), Command: job.command, Step: record.Step, Root: record.Root,
	}
	if err := p.cleanerOf(job).Clean(ctx, request, func(done disk.Progress) error { return p.cleans.progressed(job, &record, done) }); err != nil {
		return err
	}
	record.State, record.Step, record.Phase, record.Attachment = disk.Clean, "", "", job.Fact.Attachment
	if err := p.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Clean", "path", job.path, logkeys.Volume, klog.KRef("", job.volumeName()), logkeys.Duration, time.Since(job.begun))
	return nil
}

// timeout is when an attempt is given up; 0 for never.
func (job *clean) timeout() time.Duration {
	timeout := job.conf.classes[job.Key.Class].CleanTimeout
	if timeout > 0 && job.byJob {
		timeout += jobGrace
	}
	return timeout
}

// confirm asks the API server, not the informer, whether nothing can use the disk: its
// volume is being deleted and has our finalizer, or does not exist.
func (p *Provisioner) confirm(ctx context.Context, job *clean) error {
	if job.Volume == nil {
		if err := p.findForeignPV(ctx, job.gathered); err != nil {
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

// cleaningRecord is the record of a disk from now until it is clean.
func (p *Provisioner) cleaningRecord(ctx context.Context, job *clean) (disk.Record, error) {
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
	record.Key, record.HostPath, record.Mode, record.Root = job.Key, job.path, p.modeOf(job.gathered), root
	record.State, record.Generation, record.Filesystem = disk.Cleaning, job.generation, nil
	record.Cluster, record.Phase, record.Missed = p.Cluster, disk.PhaseReleased, time.Time{}
	record.Volume, record.UID, record.Attachment, record.Accepted = "", "", "", false
	if v := job.Volume; v != nil {
		record.Volume, record.UID, record.Policy = v.Name, v.UID, v.Policy
	}
	return record, nil
}

// progressed takes down how far a clean is. What a later attempt needs is on disk when
// it returns.
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
		return fmt.Errorf("write down how far the clean is: %w", err)
	}
	return nil
}
