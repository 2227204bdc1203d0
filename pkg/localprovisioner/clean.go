// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localprovisioner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/local/disk"
	"stowage.dev/stowage/pkg/local/publish"
	"stowage.dev/stowage/pkg/logkeys"
)

// A clean that failed is tried again after cleanRetryFirst, then ever later.
const cleanRetryFirst, cleanRetryLast = 5 * time.Second, 10 * time.Minute

// cleans are the cleans that are under way or wait for others to end: one at a time
// for each path, and so many at a time as the configuration says.
type cleans struct {
	agent *Agent
	group sync.WaitGroup

	mu      sync.Mutex
	limit   int
	running int
	waiting []*clean
	byPath  map[string]*clean // those too that do not count any more (silence.go)
	failed  map[string]failure
}

// clean is one attempt at one disk.
type clean struct {
	*gathered
	generation int64
	command    []string
	// byJob says that a Job is to clean; request is what the report asks for then.
	byJob    bool
	request  *stowage.CleaningRequest
	begun    time.Time // zero while it waits
	progress disk.Progress
	// alive is when it last said how far it is. It is uncounted once it has given no
	// sign of life for so long that others may begin in its place.
	alive     time.Time
	uncounted bool
}

// failure is what became of the attempts so far.
type failure struct {
	attempts int32
	last     error
	next     time.Time
}

func newCleans(a *Agent) *cleans {
	return &cleans{agent: a, limit: a.settings.MaxCleaning, byPath: map[string]*clean{}, failed: map[string]failure{}}
}

// busy says whether a slot's disk is being cleaned, or about to be. It begins those
// that wait, if the configuration now lets more run.
func (c *cleans) busy(ctx context.Context, path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fill(ctx)
	return c.byPath[path] != nil
}

// backoff is how long not to try again, and why; 0 if a clean may begin now.
func (c *cleans) backoff(path string) (time.Duration, failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.failed[path]
	return time.Until(f.next), f
}

// start begins a clean, or has it wait for its turn.
func (c *cleans) start(ctx context.Context, g *gathered, generation int64) error {
	class := g.conf.classes[g.Key.Class]
	if class == nil {
		return errAgain
	}
	job := &clean{gathered: g, generation: generation, command: cleanerOf(class, g.Fact.Kind)}
	job.byJob = c.agent.leaves(job)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPath[g.path] != nil {
		return nil
	}
	c.byPath[g.path] = job
	c.waiting = append(c.waiting, job)
	c.fill(ctx)
	return nil
}

// forget drops what failed before a slot's present volume.
func (c *cleans) forget(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failed, path)
}

// hasten lets cleans that have failed be tried again at once: perhaps what made them
// fail is gone.
func (c *cleans) hasten() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, f := range c.failed {
		f.next = time.Time{}
		c.failed[path] = f
	}
}

// resize changes how many may run at the same time.
func (c *cleans) resize(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
}

// fill begins what may run. The caller holds mu.
func (c *cleans) fill(ctx context.Context) {
	for c.running < c.limit && len(c.waiting) > 0 && ctx.Err() == nil {
		job := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.running++
		job.begun, job.alive = time.Now(), time.Now()
		c.group.Go(func() { c.run(ctx, job) })
	}
}

// run cleans, and takes down how it ended.
func (c *cleans) run(ctx context.Context, job *clean) {
	a := c.agent
	watch := c.watch(ctx, job)
	err := a.clean(ctx, job)
	watch.Stop()
	c.mu.Lock()
	if !job.uncounted {
		c.running--
	}
	delete(c.byPath, job.path)
	again := errors.Is(err, errAgain) || ctx.Err() != nil
	switch {
	case err == nil:
		delete(c.failed, job.path)
	case !again:
		f := c.failed[job.path]
		f.last, f.attempts = err, f.attempts+1
		f.next = time.Now().Add(min(cleanRetryFirst<<min(f.attempts-1, 10), cleanRetryLast))
		c.failed[job.path] = f
	}
	c.fill(ctx)
	c.mu.Unlock()
	a.told.cleaned(ctx, job, err)
	switch {
	case again:
		a.queue.AddRateLimited(job.path)
	default:
		a.queue.Forget(job.path)
		a.queue.Add(job.path)
	}
}

func (c *cleans) wait() { c.group.Wait() }

// any says whether anything is being cleaned.
func (c *cleans) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running > 0
}

// describe is how the clean of a slot's disk goes, for the report; nil if there is none
// and none has failed.
func (c *cleans) describe(path string) *stowage.Cleaning {
	c.mu.Lock()
	defer c.mu.Unlock()
	job, f := c.byPath[path], c.failed[path]
	if job == nil && f.last == nil {
		return nil
	}
	d := &stowage.Cleaning{Attempts: f.attempts}
	if f.last != nil {
		d.LastError = stowage.FitMessage(f.last.Error())
	}
	if job == nil {
		return d
	}
	d.Method, d.Request = cleanerName(job.command), job.request
	if job.begun.IsZero() {
		return d
	}
	d.Attempts++
	d.StartTime, d.DoneBytes, d.TotalBytes = &metav1.Time{Time: job.begun}, job.progress.Done, job.progress.Total
	return d
}

// clean removes the data of a disk. Its record says Cleaning before the first byte is
// changed, and Clean after the last.
func (a *Agent) clean(ctx context.Context, job *clean) error {
	if timeout := job.timeout(); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if err := a.confirm(ctx, job); errors.Is(err, errAgain) {
		return err
	} else if err != nil { // no failure of the clean, which would be put off for long
		klog.FromContext(ctx).Error(err, "Cannot make sure that nobody uses a disk, and will try again to clean it", "path", job.path)
		return errAgain
	}
	if !job.byJob { // nor may a Job that an earlier configuration has asked for
		if err := a.withdraw(job.Fact.Identity); err != nil {
			return err
		}
	}
	record, err := a.cleaningRecord(ctx, job)
	if err != nil {
		return err
	}
	if err := a.Records.Put(record); err != nil {
		return err
	}
	a.told.cleaning(job)
	klog.FromContext(ctx).V(2).Info("Cleaning", "path", job.path, logkeys.Volume, klog.KRef("", job.volumeName()), "method", cleanerName(job.command))
	request := disk.CleanRequest{
		Target: *job.Fact, Mode: record.Mode, Volume: job.volumeName(), Command: job.command, Step: record.Step, Root: record.Root,
	}
	if err := a.cleaner(job).Clean(ctx, request, func(p disk.Progress) error { return a.cleans.progressed(job, &record, p) }); err != nil {
		return err
	}
	record.State, record.Step, record.Phase = disk.Clean, "", ""
	if err := a.Records.Put(record); err != nil {
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
func (a *Agent) confirm(ctx context.Context, job *clean) error {
	if job.Volume == nil {
		if err := a.findForeign(ctx, job.gathered); err != nil {
			return err
		}
	}
	if job.Volume == nil {
		if job.Record != nil {
			if err := a.unclaimed(ctx, job.Fact.Identity); err != nil {
				return err
			}
		}
		return a.vanished(ctx, job.volumeName())
	}
	live, err := a.asked(ctx, job.Volume.Name)
	if err != nil {
		return err
	}
	if live == nil || string(live.UID) != job.Volume.UID {
		return errAgain
	}
	now, problem := publish.VolumeOf(live, job.conf.directories)
	if problem != nil || !now.Deleting || !now.Finalized || now.Phase == disk.PhaseBound || now.Binding() || now.Policy != disk.Delete {
		return errAgain
	}
	return nil
}

// cleaningRecord is the record of a disk from now until it is clean.
func (a *Agent) cleaningRecord(ctx context.Context, job *clean) (disk.Record, error) {
	record := disk.Record{Identity: job.Fact.Identity, Kind: job.Fact.Kind, Policy: disk.Delete}
	if job.Record != nil {
		record = *job.Record
	}
	root, err := a.rootOf(ctx, job.gathered)
	if err != nil {
		return record, err
	}
	if record.State != disk.Cleaning {
		record.Step = ""
	}
	record.Key, record.HostPath, record.Mode, record.Root = job.Key, job.path, a.modeOf(job.gathered), root
	record.State, record.Generation, record.Filesystem = disk.Cleaning, job.generation, nil
	record.Cluster, record.Phase, record.Missed = a.Cluster, disk.PhaseReleased, time.Time{}
	record.Volume, record.UID = "", ""
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
	if err := c.agent.Records.Put(*record); err != nil {
		return fmt.Errorf("write down how far the clean is: %w", err)
	}
	return nil
}
