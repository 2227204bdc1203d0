// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clean runs what takes long for a disk: it removes the data of disks whose volumes are
// released, in process or by Jobs, reads devices to prove that they are blank, and makes file
// systems. Attempts are
// limited in number, resumed after a restart, and retried with backoff.
package clean

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

// Cleaner removes all data from a disk, in process or in a Job. While it writes, it ensures that
// the disk is the requested one and has no other user. progress may be called often; after an
// error of it, and when ctx ends, the clean stops, and another call with the last step resumes
// it.
type Cleaner interface {
	Clean(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error
	// Restore restores the root of a file system as Inspector.Root described it; for a device
	// it does nothing. Clean has done so when it returns nil.
	Restore(ctx context.Context, fact disk.Fact, root json.RawMessage) error
}

// Inspector reads one disk.
type Inspector interface {
	// Cleaned returns whether a clean has left data on a disk that is offered in a mode, and
	// what. It is valid for disks that were cleaned only.
	Cleaned(ctx context.Context, fact disk.Fact, mode disk.Mode) (disk.Content, string, error)
	// ProveBlank reads a device until it has read every byte or found one that is not zero,
	// which can take days, and calls progress after each few MiB. It returns its progress with
	// an error too. disk.ErrBlankProofVoid means that request.From is not valid any more. With
	// a complete proof it only verifies that.
	ProveBlank(ctx context.Context, request disk.BlankProofRequest, progress func(disk.BlankProof) error) (disk.BlankProof, error)
	// Users returns who uses a disk, without the mount that is published as the volume. After
	// an error the disk may be in use.
	Users(ctx context.Context, fact disk.Fact, volume string) ([]disk.User, error)
}

// Status reports what becomes of attempts.
type Status interface {
	// Changed is called when the progress of an attempt has changed.
	Changed()
	// Decided reports why an attempt does not progress.
	Decided(s *decide.Slot, d decide.Decision)
	// CleanStarted and CleanEnded report a clean; err is nil if it succeeded.
	CleanStarted(s *decide.Slot, method string)
	CleanEnded(s *decide.Slot, c metrics.Clean, err error)
}

// Checks are made right before a disk is cleaned.
type Checks interface {
	// ConfirmClean returns decide.ErrStale if the API server, unlike the informer, has
	// something that can use the disk.
	ConfirmClean(ctx context.Context, s *decide.Slot) error
	// RootOf describes the root of a file system; nil for a device.
	RootOf(ctx context.Context, s *decide.Slot) (json.RawMessage, error)
}

// Config is what cleans and proofs need.
type Config struct {
	// Node is the name of the node; Cluster returns the UID of namespace kube-system.
	Node    string
	Cluster func() string
	// Settings returns the configuration in force.
	Settings  func() *provisioner.ProvisionerConfiguration
	Inspector Inspector
	Cleaner   Cleaner
	Maker     Maker
	Checks    Checks
	// Tickets and Reports are for cleaning Jobs; nil disables Jobs.
	Tickets Tickets
	Reports Reports
	Records *diskrecord.Store
	// Attached returns the disks that the last scan found.
	Attached func() map[disk.Identity]bool
	// Queue has the paths that are to be decided on.
	Queue  workqueue.TypedRateLimitingInterface[string]
	Status Status
}

// Cleans runs cleans, and keeps those that wait.
type Cleans struct {
	*runner[*clean]
	Config
}

// clean is one attempt at one disk.
type clean struct {
	attempt
	generation int64
	command    []string
	limit      time.Duration // 0 for none
	// byJob reports whether a Job cleans; request is in the report then.
	byJob    bool
	request  *stowage.CleaningRequest
	progress disk.Progress
}

// NewCleans returns cleans that run as Begin requests them.
func NewCleans(config Config) *Cleans {
	c := &Cleans{Config: config}
	c.runner = newRunner(int(*config.Settings().MaxCleaning), c.run, nil)
	return c
}

// Begin starts or queues the clean of a slot's disk. The clean keeps the command, the timeout, and
// whether a Job runs it, as they are configured now, until it ends; see docs/design/local-volumes.md.
func (c *Cleans) Begin(ctx context.Context, s *decide.Slot, generation int64) error {
	settings := c.Settings()
	class, configured := settings.Classes[s.Key.Class]
	if !configured {
		return decide.ErrStale
	}
	job := &clean{attempt: attempt{Slot: s}, generation: generation, command: class.FSCleanerCommand, limit: class.CleanTimeout.Duration}
	if s.Fact.Kind == disk.Device {
		job.command = class.BlockCleanerCommand
	}
	job.byJob = settings.UseJobForCleaning && c.usesJob(job)
	if job.byJob && job.limit > 0 {
		job.limit += jobGrace
	}
	c.start(ctx, job)
	return nil
}

// Obstacle returns why a clean that has failed is not retried yet, and for how long; nil if
// it may start now.
func (c *Cleans) Obstacle(path string) (*disk.Problem, time.Duration) {
	c.mu.Lock()
	f := c.failed[path]
	c.mu.Unlock()
	left := time.Until(f.next)
	if left <= 0 {
		return nil, 0
	}
	problem, known := errors.AsType[*disk.Problem](f.last)
	if !known || problem.Reason != disk.VolumeInUse && problem.Reason != disk.JobRefused {
		problem = disk.Problemf(disk.CleanFailed, "attempt %d failed: %v", f.attempts, f.last)
	}
	return problem, left
}

// RetryNow lets failed cleans be retried at once: a new configuration may have removed the
// cause.
func (c *Cleans) RetryNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, f := range c.failed {
		f.next = time.Time{}
		c.failed[path] = f
	}
}

// run cleans, and enqueues the path.
func (c *Cleans) run(ctx, own context.Context, job *clean) {
	watch := c.watch(ctx, job, job.timeLeft, func() { c.reportHung(ctx, job) })
	err := c.clean(own, job)
	watch.Stop()
	interrupted := errors.Is(err, decide.ErrStale) || ctx.Err() != nil
	c.mu.Lock()
	c.end(ctx, job, err, interrupted)
	c.mu.Unlock()
	c.Status.Changed()
	if interrupted {
		c.Queue.AddRateLimited(job.Path)
		return
	}
	c.Status.CleanEnded(job.Slot, job.measured(err), err)
	c.Queue.Forget(job.Path)
	c.Queue.Add(job.Path)
}

// measured returns a clean for the metrics.
func (job *clean) measured(err error) metrics.Clean {
	m := metrics.Clean{
		Mode: metrics.VolumeMode(job.OfferedMode()), By: metrics.InProcess, Bytes: job.Fact.Bytes, Command: job.command, Took: time.Since(job.begun), Failed: err != nil,
	}
	if job.byJob {
		m.By = metrics.InJob
	}
	if v := job.Volume; v != nil {
		m.Bytes = v.Bytes
	}
	return m
}

// Describe returns the progress of the clean of a path, for the report; nil if none is running
// and none has failed.
func (c *Cleans) Describe(path string) *stowage.Cleaning {
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
func (c *Cleans) clean(ctx context.Context, job *clean) error {
	if job.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, job.limit)
		defer cancel()
	}
	if err := c.Checks.ConfirmClean(ctx, job.Slot); errors.Is(err, decide.ErrStale) {
		return err
	} else if err != nil { // not a failure of the clean, whose backoff is long
		klog.FromContext(ctx).Error(err, "Failed to determine whether a disk is in use; retrying to clean it", "path", job.Path)
		return decide.ErrStale
	}
	if !job.byJob { // a Job that an earlier configuration requested must not clean too
		if err := c.Withdraw(job.Fact.Identity); err != nil {
			return err
		}
	}
	record, err := c.cleaningRecord(ctx, job)
	if err != nil {
		return err
	}
	if err := c.Records.Put(record); err != nil {
		return err
	}
	c.Status.CleanStarted(job.Slot, cleanerName(job.command))
	klog.FromContext(ctx).V(2).Info("Cleaning a disk", "path", job.Path, logkeys.Volume, klog.KRef("", job.VolumeName()), "method", cleanerName(job.command))
	request := disk.CleanRequest{
		Target: *job.Fact, Mode: record.Mode, Volume: job.VolumeName(), Command: job.command, Step: record.Step, Root: record.Root,
	}
	run := c.Cleaner.Clean
	if job.byJob {
		run = (&jobCleaner{Cleans: c, job: job}).Clean
	}
	if err := run(ctx, request, func(done disk.Progress) error { return c.progressed(job, &record, done) }); err != nil {
		return err
	}
	record.State, record.Step, record.Phase, record.Attachment = disk.Clean, "", "", job.Fact.Attachment
	if err := c.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Cleaned a disk", "path", job.Path, logkeys.Volume, klog.KRef("", job.VolumeName()), logkeys.Duration, time.Since(job.begun))
	return nil
}

// cleaningRecord returns the record of a disk while it is cleaned.
func (c *Cleans) cleaningRecord(ctx context.Context, job *clean) (disk.Record, error) {
	record := disk.Record{Identity: job.Fact.Identity, Kind: job.Fact.Kind, Policy: disk.Delete}
	if job.Record != nil {
		record = *job.Record
	}
	root, err := c.Checks.RootOf(ctx, job.Slot)
	if err != nil {
		return record, err
	}
	if record.State != disk.Cleaning {
		record.Step = ""
	}
	record.Key, record.HostPath, record.Mode, record.Root = job.Key, job.Path, job.OfferedMode(), root
	record.State, record.Generation, record.Filesystem, record.Formatting = disk.Cleaning, job.generation, nil, nil
	record.Cluster, record.Phase, record.Missed = c.Cluster(), disk.PhaseReleased, time.Time{}
	record.Volume, record.UID, record.Attachment, record.Accepted = "", "", "", false
	if v := job.Volume; v != nil {
		record.Volume, record.UID, record.Policy = v.Name, v.UID, v.Policy
	}
	return record, nil
}

// progressed stores the progress of a clean. A later attempt can resume there when it returns.
func (c *Cleans) progressed(job *clean, record *disk.Record, p disk.Progress) error {
	c.mu.Lock()
	step := job.progress.Step
	job.progress, job.alive = p, time.Now()
	c.mu.Unlock()
	if p.Step == step {
		return nil
	}
	record.Step = p.Step
	if err := c.Records.Put(*record); err != nil {
		return fmt.Errorf("record the progress of the clean: %w", err)
	}
	return nil
}

// cleanerName returns the name of a command in metrics and events.
func cleanerName(command []string) string {
	if len(command) == 0 {
		return "remove files"
	}
	return strings.Join(command, " ")
}

// Withdraw prevents Jobs from cleaning a disk that is published or cleaned in process.
func (c *Cleans) Withdraw(identity disk.Identity) error {
	if c.Tickets == nil {
		return nil
	}
	return c.Tickets.Withdraw(identity)
}

// usesJob reports whether a Job can clean: if there is a volume in which the controller can verify
// the request.
func (c *Cleans) usesJob(job *clean) bool {
	step := ""
	if job.Record != nil {
		step = job.Record.Step
	}
	return c.Tickets != nil && c.Reports != nil && job.Volume != nil && !cleanjob.InProcess(job.command, step)
}

// Count returns the totals for the metrics. published counts volumes that are being reclaimed.
func (c *Cleans) Count(published int) metrics.Cleans {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := metrics.Cleans{Queued: len(c.waiting), Running: c.running}
	for path := range c.failed {
		if c.byPath[path] == nil {
			n.Failed++
		}
	}
	n.Succeeded = max(published-n.Queued-n.Running-n.Failed, 0)
	return n
}
