// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
)

// Backoff of an attempt that failed.
const attemptRetryFirst, attemptRetryLast = 5 * time.Second, 10 * time.Minute

// runner runs attempts of one kind: one at a time for each path, and at most limit in all.
// Its methods are safe for concurrent use.
type runner[A anAttempt] struct {
	// run runs an attempt until own ends; watch and end are called with ctx.
	run func(ctx, own context.Context, a A)
	// blocked reports whether an attempt has to wait although the limit is not reached. It is
	// called with mu held; nil blocks none.
	blocked func(A) bool
	group   sync.WaitGroup

	mu      sync.Mutex
	limit   int
	running int
	waiting []A
	byPath  map[string]A // including those that are not counted
	failed  map[string]failure
}

// anAttempt embeds an attempt.
type anAttempt interface {
	comparable
	base() *attempt
}

// attempt is the state of an attempt. The runner's mu protects it.
type attempt struct {
	*decide.Slot
	cancel context.CancelFunc // nil while it waits
	begun  time.Time          // zero while it waits
	// alive is when it last made progress. An attempt that hangs is uncounted, so that others
	// can run.
	alive     time.Time
	uncounted bool
}

func (a *attempt) base() *attempt { return a }

// failure counts the failed attempts at a path.
type failure struct {
	attempts int32
	last     error
	next     time.Time
}

// history is what the report shows of the attempts at a path.
type history struct {
	attempts  int32
	lastError string
	start     *metav1.Time
}

func newRunner[A anAttempt](limit int, run func(ctx, own context.Context, a A), blocked func(A) bool) *runner[A] {
	return &runner[A]{run: run, blocked: blocked, limit: limit, byPath: map[string]A{}, failed: map[string]failure{}}
}

// start starts or queues an attempt, unless there is one of its path. If the limit was raised,
// it starts others too.
func (r *runner[A]) start(ctx context.Context, a A) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := a.base().Path
	if _, busy := r.byPath[path]; !busy {
		r.byPath[path] = a
		r.waiting = append(r.waiting, a)
	}
	r.fill(ctx)
}

// Busy reports whether there is an attempt at a path. If the limit was raised, it starts
// attempts that wait.
func (r *runner[A]) Busy(ctx context.Context, path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fill(ctx)
	_, busy := r.byPath[path]
	return busy
}

// Stop ends the attempt at a path; another one can resume it.
func (r *runner[A]) Stop(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.byPath[path]
	switch {
	case !ok:
	case a.base().cancel == nil:
		r.waiting = slices.DeleteFunc(r.waiting, func(other A) bool { return other == a })
		delete(r.byPath, path)
	default:
		a.base().cancel()
	}
}

// Forget drops the failures of a path.
func (r *runner[A]) Forget(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, path)
}

// Resize changes how many may run at a time, from the next start on.
func (r *runner[A]) Resize(limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
}

// fill starts attempts up to the limit, in their order. The caller holds mu.
func (r *runner[A]) fill(ctx context.Context) {
	for i := 0; i < len(r.waiting) && r.running < r.limit && ctx.Err() == nil; {
		a := r.waiting[i]
		if r.blocked != nil && r.blocked(a) {
			i++
			continue
		}
		r.waiting = slices.Delete(r.waiting, i, i+1)
		r.running++
		base := a.base()
		base.begun, base.alive = time.Now(), time.Now()
		var own context.Context
		own, base.cancel = context.WithCancel(ctx)
		r.group.Go(func() { defer base.cancel(); r.run(ctx, own, a) })
	}
}

// watch stops counting an attempt that hangs, and then calls hung, without mu. left returns how
// long the attempt may take until it makes progress; it is called with mu held. The caller
// stops the timer when the attempt has ended.
func (r *runner[A]) watch(ctx context.Context, a A, left func() time.Duration, hung func()) *time.Timer {
	r.mu.Lock()
	defer r.mu.Unlock()
	base := a.base()
	var timer *time.Timer
	timer = time.AfterFunc(left(), func() {
		r.mu.Lock()
		switch more := left(); {
		case r.byPath[base.Path] != a || ctx.Err() != nil:
		case more > 0:
			timer.Reset(more)
		default:
			base.uncounted = true
			r.running--
			r.fill(ctx)
			defer hung()
		}
		r.mu.Unlock()
	})
	return timer
}

// end removes an attempt. An error counts as a failure unless it was interrupted. The caller
// holds mu.
func (r *runner[A]) end(ctx context.Context, a A, err error, interrupted bool) {
	base := a.base()
	if !base.uncounted {
		r.running--
	}
	delete(r.byPath, base.Path)
	switch {
	case err == nil:
		delete(r.failed, base.Path)
	case !interrupted:
		f := r.failed[base.Path]
		f.last, f.attempts = err, f.attempts+1
		f.next = time.Now().Add(min(attemptRetryFirst<<min(f.attempts-1, 10), attemptRetryLast))
		r.failed[base.Path] = f
	}
	r.fill(ctx)
}

// Running reports whether an attempt is running.
func (r *runner[A]) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running > 0
}

// Wait returns when all attempts have ended.
func (r *runner[A]) Wait() { r.group.Wait() }

// history returns the attempt at a path, if there is one, and its history for the report. The
// caller holds mu.
func (r *runner[A]) history(path string) (A, history) {
	a, ok := r.byPath[path]
	f := r.failed[path]
	h := history{attempts: f.attempts}
	if f.last != nil {
		h.lastError = stowage.FitMessage(f.last.Error())
	}
	if ok && a.base().cancel != nil {
		h.attempts++
		h.start = &metav1.Time{Time: a.base().begun}
	}
	return a, h
}
