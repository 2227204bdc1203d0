// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localprovisioner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/local/disk"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// proofChunk is how much a device is asked for at a time, at most; see
	// Inspector.ProveBlank.
	proofChunk = 4 << 20
	// proofSave is how often the progress of proofs is written down.
	proofSave = 30 * time.Second
)

// proofs are the blank proofs that run or wait: one per path and per disk, and as many at
// a time as the configuration says. Their results are kept by identity, and are checked
// again by whoever uses them.
type proofs struct {
	agent *Agent
	group sync.WaitGroup

	mu      sync.Mutex
	limit   int
	running int
	waiting []*proof
	byPath  map[string]*proof // also those that are not counted any more
	results map[disk.Identity]disk.BlankProof
	failed  map[string]failure
	saved   time.Time

	saving sync.Mutex // held while results are written down; taken before mu
}

// proof is one attempt to prove that a device is blank.
type proof struct {
	*gathered
	cancel context.CancelFunc // nil while it waits
	begun  time.Time
	// read is when the last read began. A proof whose read does not end is hung: it is not
	// counted from then on, so that others can run.
	read time.Time
	hung bool
	done int64
}

func newProofs(a *Agent) *proofs {
	p := &proofs{agent: a, limit: a.settings.MaxBlankProofs, byPath: map[string]*proof{}, failed: map[string]failure{}, saved: time.Now()}
	p.results = a.Records.BlankProofs()
	return p
}

// start begins a proof or has it wait, if there is none of the path.
func (p *proofs) start(ctx context.Context, g *gathered) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPath[g.path] == nil {
		job := &proof{gathered: g}
		p.byPath[g.path] = job
		p.waiting = append(p.waiting, job)
	}
	p.fill(ctx)
}

// stop ends the proof of a path, which another one can go on with.
func (p *proofs) stop(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	job := p.byPath[path]
	switch {
	case job == nil:
	case job.cancel == nil:
		p.waiting = slices.DeleteFunc(p.waiting, func(other *proof) bool { return other == job })
		delete(p.byPath, path)
	default:
		job.cancel()
	}
}

// forget drops what is known of a path without a disk.
func (p *proofs) forget(path string) {
	p.stop(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, path)
}

// resize changes how many proofs may run at a time.
func (p *proofs) resize(ctx context.Context, limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	p.fill(ctx)
}

// of returns what is proven of a disk so far, and whether a proof is running or waiting.
func (p *proofs) of(path string, identity disk.Identity) (disk.BlankProof, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	job := p.byPath[path]
	return p.results[identity], job != nil && job.Fact.Identity == identity
}

// drop forgets what was proven of a disk.
func (p *proofs) drop(identity disk.Identity) {
	p.mu.Lock()
	_, known := p.results[identity]
	delete(p.results, identity)
	p.mu.Unlock()
	if known {
		p.save()
	}
}

// obstacle is why the proof of a path does not go on now, and when to try again; nil if it
// does.
func (p *proofs) obstacle(path string) (*disk.Problem, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if job := p.byPath[path]; job != nil {
		if !job.hung {
			return nil, 0
		}
		return disk.Problemf(disk.TimedOut, "the disk at %s has not answered since %s, while it was read to prove that it is blank",
			path, job.read.UTC().Format(time.RFC3339)), retryLast
	}
	f := p.failed[path]
	left := time.Until(f.next)
	switch problem, known := errors.AsType[*disk.Problem](f.last); {
	case left <= 0:
		return nil, 0
	case errors.Is(f.last, disk.ErrBlankProofVoid):
		return disk.Problemf(disk.ProvingBlank, "it was written to while it was read to prove that it is blank; reading begins again"), left
	case known:
		return problem, left
	default:
		return disk.Problemf(disk.Unreadable, "attempt %d to prove that it is blank failed: %v", f.attempts, f.last), left
	}
}

// fill begins what may run, in the order of the requests. The caller holds mu.
func (p *proofs) fill(ctx context.Context) {
	for i := 0; i < len(p.waiting) && p.running < p.limit && ctx.Err() == nil; {
		job := p.waiting[i]
		if p.sharesDisk(job) {
			i++
			continue
		}
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.running++
		job.begun, job.read = time.Now(), time.Now()
		var proving context.Context
		proving, job.cancel = context.WithCancel(ctx)
		p.group.Go(func() { p.run(ctx, proving, job) })
	}
}

// sharesDisk reports whether a device on the same disk is being read: two at a time would
// only make the heads of a hard disk move. The caller holds mu.
func (p *proofs) sharesDisk(job *proof) bool {
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

// run proves, and has the slot decided about again. ctx is that of all proofs, proving
// ends with stop too.
func (p *proofs) run(ctx, proving context.Context, job *proof) {
	defer job.cancel()
	logger := klog.FromContext(ctx)
	from, _ := p.of(job.path, job.Fact.Identity)
	if from.Found { // it was zeroed since, or the disk would not be read again
		from = disk.BlankProof{}
	}
	rate := p.agent.current().BlankProofRate
	watch := p.watch(ctx, job, rate)
	logger.V(2).Info("Reading a device to prove that it is blank", "path", job.path, "bytes", job.Fact.Bytes, "from", from.Done)
	result, err := p.prove(proving, job, from, rate)
	if errors.Is(err, disk.ErrBlankProofVoid) && from != (disk.BlankProof{}) {
		result, err = p.prove(proving, job, disk.BlankProof{}, rate)
	}
	watch.Stop()
	p.ended(ctx, job, result, err, proving.Err() != nil)
	logger.V(2).Info("Stopped reading a device", "path", job.path, "bytes", result.Done, "found", result.Found, "err", err, logkeys.Duration, time.Since(job.begun))
	p.agent.told.poke()
	p.agent.queue.Add(job.path)
}

func (p *proofs) prove(ctx context.Context, job *proof, from disk.BlankProof, rate int64) (disk.BlankProof, error) {
	p.mu.Lock()
	job.done = from.Done
	p.mu.Unlock()
	request := disk.BlankProofRequest{Target: *job.Fact, From: from, Rate: rate}
	return p.agent.Inspector.ProveBlank(ctx, request, func(now disk.BlankProof) error { return p.progressed(job, now) })
}

// ended records how a proof ended.
func (p *proofs) ended(ctx context.Context, job *proof, result disk.BlankProof, err error, stopped bool) {
	defer p.save()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !job.hung {
		p.running--
	}
	delete(p.byPath, job.path)
	if result == (disk.BlankProof{}) {
		delete(p.results, job.Fact.Identity)
	} else {
		p.results[job.Fact.Identity] = result
	}
	switch {
	case err == nil:
		delete(p.failed, job.path)
	case !stopped:
		f := p.failed[job.path]
		f.last, f.attempts = err, f.attempts+1
		f.next = time.Now().Add(min(cleanRetryFirst<<min(f.attempts-1, 10), cleanRetryLast))
		p.failed[job.path] = f
	}
	p.fill(ctx)
}

// progressed records how far a proof is.
func (p *proofs) progressed(job *proof, now disk.BlankProof) error {
	p.mu.Lock()
	metrics.CountBlankProofBytes(now.Done - job.done)
	job.read, job.done = time.Now(), now.Done
	p.results[job.Fact.Identity] = now
	due := time.Since(p.saved) >= proofSave
	p.mu.Unlock()
	if due {
		p.save()
	}
	return nil
}

// save writes down what is proven of the disks that are here, so that the next provisioner
// can go on there. A failure costs time and nothing else.
func (p *proofs) save() {
	p.saving.Lock()
	defer p.saving.Unlock()
	here := p.agent.identities()
	p.mu.Lock()
	p.saved = time.Now()
	results := maps.Clone(p.results)
	p.mu.Unlock()
	maps.DeleteFunc(results, func(identity disk.Identity, _ disk.BlankProof) bool { return !here[identity] })
	if err := p.agent.Records.PutBlankProofs(results); err != nil {
		klog.Background().Error(err, "Failed to record how far blank proofs are")
	}
}

// patience is how long a read may take: the pause that the rate demands comes on top.
func (p *proofs) patience(rate int64) time.Duration {
	return p.agent.current().ProbeTimeout + time.Duration(proofChunk/float64(rate)*float64(time.Second))
}

// watch stops counting a proof whose disk does not answer. Stop the timer when the proof
// has ended.
func (p *proofs) watch(ctx context.Context, job *proof, rate int64) *time.Timer {
	patience := p.patience(rate)
	p.mu.Lock()
	defer p.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		left := patience - time.Since(job.read)
		switch {
		case p.byPath[job.path] != job:
		case left > 0:
			timer.Reset(left)
		default:
			job.hung = true
			p.running--
			p.fill(ctx)
			p.agent.queue.Add(job.path)
		}
	})
	return timer
}

// any reports whether a device is being read.
func (p *proofs) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running > 0
}

func (p *proofs) wait() { p.group.Wait() }

// count is how many proofs run and how many wait, for the metrics.
func (p *proofs) count() (running, queued int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running, len(p.waiting)
}

// describe is how the proof of a path goes, for the report; nil if there is none.
func (p *proofs) describe(path string) *stowage.BlankProof {
	p.mu.Lock()
	defer p.mu.Unlock()
	job, f := p.byPath[path], p.failed[path]
	if job == nil && f.last == nil {
		return nil
	}
	d := &stowage.BlankProof{Attempts: f.attempts}
	if f.last != nil {
		d.LastError = stowage.FitMessage(f.last.Error())
	}
	if job == nil {
		return d
	}
	result := p.results[job.Fact.Identity]
	d.DoneBytes, d.TotalBytes = result.Done, job.Fact.Bytes
	if job.cancel != nil {
		d.Attempts++
		d.StartTime = &metav1.Time{Time: job.begun}
	}
	return d
}
