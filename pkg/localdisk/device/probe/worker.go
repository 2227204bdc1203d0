// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// workers has the examinations in progress, at most one for a path.
type workers struct {
	mu   sync.Mutex
	busy map[string]*job
}

// job is one examination. stuck is set after a caller's timeout.
type job struct {
	done  chan struct{}
	stuck bool
}

// callWithin examines a path in its own goroutine and waits for the result until p's timeout. It
// first waits for an examination of the same path in progress, unless that is stuck. call must
// change nothing but its result, which is discarded after a timeout.
func callWithin[T any](ctx context.Context, p *Prober, path string, call func() T) (T, *disk.Problem) {
	var none T
	w, timeout := &p.workers, time.Duration(p.timeout.Load())
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mine, problem := w.begin(ctx, path)
	if problem != nil {
		return none, problem
	}
	answer := make(chan T, 1)
	go func() {
		defer w.end(path, mine)
		answer <- call()
	}()
	select {
	case <-mine.done:
		return <-answer, nil
	case <-ctx.Done():
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return none, disk.Problemf(disk.TimedOut, "%s was not waited for: %v", path, ctx.Err())
		}
		w.mu.Lock()
		mine.stuck = true
		w.mu.Unlock()
		return none, disk.Problemf(disk.TimedOut, "%s did not answer within %v: the disk or its file system may be failing", path, timeout)
	}
}

// begin starts an examination, after others of the same path.
func (w *workers) begin(ctx context.Context, path string) (*job, *disk.Problem) {
	for {
		w.mu.Lock()
		other, ok := w.busy[path]
		if !ok {
			mine := &job{done: make(chan struct{})}
			w.busy[path] = mine
			w.mu.Unlock()
			return mine, nil
		}
		stuck := other.stuck
		w.mu.Unlock()
		if stuck {
			return nil, disk.Problemf(disk.TimedOut, "%s has not answered an earlier scan: the disk or its file system may be failing", path)
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, disk.Problemf(disk.TimedOut, "%s did not answer in time", path)
		}
	}
}

func (w *workers) end(path string, j *job) {
	w.mu.Lock()
	delete(w.busy, path)
	w.mu.Unlock()
	close(j.done)
}
