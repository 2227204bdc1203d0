// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// proofChunk is the largest single read of a device; see Inspector.ProveBlank.
	proofChunk = 4 << 20
	// hungRecheck is the time between two decisions on a device that does not answer.
	hungRecheck = 2 * time.Minute
	// proofSave is the time between two writes of the progress of proofs.
	proofSave = 30 * time.Second
)

// Proofs runs blank proofs, and keeps those that wait. Results are kept by identity; each use
// verifies them.
type Proofs struct {
	*runner[*proof]
	Config

	results map[disk.Identity]disk.BlankProof
	saved   time.Time

	saving sync.Mutex // held while results are written; locked before mu
}

// proof is one attempt to prove that a device is blank.
type proof struct {
	attempt
	done int64
}

// NewProofs returns proofs that run as Start requests them.
func NewProofs(config Config) *Proofs {
	p := &Proofs{Config: config, saved: time.Now(), results: config.Records.BlankProofs()}
	p.runner = newRunner(int(*config.Settings().MaxBlankProofs), p.run, p.sharesDisk)
	return p
}

// Start starts or queues the proof of a slot's disk, unless there is one.
func (p *Proofs) Start(ctx context.Context, s *decide.Slot) {
	p.start(ctx, &proof{attempt: attempt{Slot: s}})
}

// Result returns what is proven of a disk so far, and whether a proof is running or waiting.
func (p *Proofs) Result(path string, identity disk.Identity) (disk.BlankProof, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	job := p.byPath[path]
	return p.results[identity], job != nil && job.Fact.Identity == identity
}

// Verify checks that nothing was written to a device since its complete proof.
func (p *Proofs) Verify(ctx context.Context, device disk.Fact, proof disk.BlankProof) (disk.Content, error) {
	_, err := p.Inspector.ProveBlank(ctx, disk.BlankProofRequest{Target: device, From: proof}, func(disk.BlankProof) error { return nil })
	switch {
	case err == nil:
		return disk.ContentNone, nil
	case errors.Is(err, disk.ErrBlankProofVoid):
		p.drop(device.Identity)
		return disk.ContentSampled, nil
	default:
		return disk.ContentUnknown, err
	}
}

// drop discards the result of a disk.
func (p *Proofs) drop(identity disk.Identity) {
	p.mu.Lock()
	_, known := p.results[identity]
	delete(p.results, identity)
	p.mu.Unlock()
	if known {
		p.save()
	}
}

// Obstacle returns why the proof of a path does not run, and when to retry it; nil if it does
// or may start now.
func (p *Proofs) Obstacle(path string) (*disk.Problem, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if job := p.byPath[path]; job != nil {
		if !job.uncounted {
			return nil, 0
		}
		return disk.Problemf(disk.TimedOut, "the disk at %s has not answered since %s, while it was read to prove that it is blank",
			path, job.alive.UTC().Format(time.RFC3339)), hungRecheck
	}
	f := p.failed[path]
	left := time.Until(f.next)
	switch problem, known := errors.AsType[*disk.Problem](f.last); {
	case left <= 0:
		return nil, 0
	case errors.Is(f.last, disk.ErrBlankProofVoid):
		return disk.Problemf(disk.ProvingBlank, "it was written to while it was read to prove that it is blank; the proof starts again"), left
	case known:
		return problem, left
	default:
		return disk.Problemf(disk.Unreadable, "attempt %d to prove that it is blank failed: %v", f.attempts, f.last), left
	}
}

// sharesDisk reports whether a device on the same disk is being read: two reads at a time make
// a hard disk slower. The caller holds mu.
func (p *Proofs) sharesDisk(job *proof) bool {
	places := append([]string{job.Fact.Place}, job.Fact.Overlaps...)
	for _, other := range p.byPath {
		if other.cancel == nil {
			continue
		}
		if slices.Contains(places, other.Fact.Place) || slices.ContainsFunc(other.Fact.Overlaps, func(place string) bool { return slices.Contains(places, place) }) {
			return true
		}
	}
	return false
}

// run runs a proof, and enqueues the path.
func (p *Proofs) run(ctx, proving context.Context, job *proof) {
	logger := klog.FromContext(ctx)
	from, _ := p.Result(job.Path, job.Fact.Identity)
	if from.Found { // the byte was zeroed since, otherwise there would be no proof
		from = disk.BlankProof{}
	}
	rate := p.Settings().BlankProofRate.Value()
	timeout := p.readTimeout(rate)
	watch := p.watch(ctx, job, func() time.Duration { return timeout - time.Since(job.alive) }, func() { p.Queue.Add(job.Path) })
	logger.V(2).Info("Reading a device to prove that it is blank", "path", job.Path, "bytes", job.Fact.Bytes, "from", from.Done)
	result, err := p.prove(proving, job, from, rate)
	if errors.Is(err, disk.ErrBlankProofVoid) && from != (disk.BlankProof{}) {
		result, err = p.prove(proving, job, disk.BlankProof{}, rate)
	}
	watch.Stop()
	p.ended(ctx, job, result, err, proving.Err() != nil)
	logger.V(2).Info("Stopped reading a device", "path", job.Path, "bytes", result.Done, "found", result.Found, "err", err, logkeys.Duration, time.Since(job.begun))
	p.Status.Changed()
	p.Queue.Add(job.Path)
}

func (p *Proofs) prove(ctx context.Context, job *proof, from disk.BlankProof, rate int64) (disk.BlankProof, error) {
	p.mu.Lock()
	job.done = from.Done
	p.mu.Unlock()
	request := disk.BlankProofRequest{Target: *job.Fact, From: from, Rate: rate}
	return p.Inspector.ProveBlank(ctx, request, func(now disk.BlankProof) error { return p.progressed(job, now) })
}

// ended stores the result of a proof.
func (p *Proofs) ended(ctx context.Context, job *proof, result disk.BlankProof, err error, stopped bool) {
	defer p.save()
	p.mu.Lock()
	defer p.mu.Unlock()
	if result == (disk.BlankProof{}) {
		delete(p.results, job.Fact.Identity)
	} else {
		p.results[job.Fact.Identity] = result
	}
	p.end(ctx, job, err, stopped)
}

// progressed stores the progress of a proof.
func (p *Proofs) progressed(job *proof, now disk.BlankProof) error {
	p.mu.Lock()
	metrics.CountBlankProofBytes(now.Done - job.done)
	job.alive, job.done = time.Now(), now.Done
	p.results[job.Fact.Identity] = now
	due := time.Since(p.saved) >= proofSave
	p.mu.Unlock()
	if due {
		p.save()
	}
	return nil
}

// save writes the results of the attached disks, so that the next provisioner can resume. A
// failure costs time only.
func (p *Proofs) save() {
	p.saving.Lock()
	defer p.saving.Unlock()
	attached := p.Attached()
	p.mu.Lock()
	p.saved = time.Now()
	results := maps.Clone(p.results)
	p.mu.Unlock()
	maps.DeleteFunc(results, func(identity disk.Identity, _ disk.BlankProof) bool { return !attached[identity] })
	if err := p.Records.PutBlankProofs(results); err != nil {
		klog.Background().Error(err, "Failed to record the progress of blank proofs")
	}
}

// readTimeout is how long a read may take, including the pause after it that the rate requires.
func (p *Proofs) readTimeout(rate int64) time.Duration {
	return p.Settings().ProbeTimeout.Duration + time.Duration(proofChunk/float64(rate)*float64(time.Second))
}

// Count returns how many proofs run and how many wait, for the metrics.
func (p *Proofs) Count() (running, queued int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running, len(p.waiting)
}

// Describe returns the progress of the proof of a path, for the report; nil if there is none.
func (p *Proofs) Describe(path string) *stowage.BlankProof {
	p.mu.Lock()
	defer p.mu.Unlock()
	job, h := p.history(path)
	if job == nil && h == (history{}) {
		return nil
	}
	d := &stowage.BlankProof{Attempts: h.attempts, LastError: h.lastError, StartTime: h.start}
	if job != nil {
		d.DoneBytes, d.TotalBytes = p.results[job.Fact.Identity].Done, job.Fact.Bytes
	}
	return d
}
