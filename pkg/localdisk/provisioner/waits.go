// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"sync"
	"time"
)

// waits are the slots that wait for something that no event tells of. Each is looked at
// again after retryFirst, then ever later. It is the looks that were waited for that make
// the next one later, and not those that something else was the occasion of: else a
// cluster where much happens would put everybody off.
type waits struct {
	mu    sync.Mutex
	known map[string]*waiting // by path
}

type waiting struct {
	pause time.Duration
	until time.Time
}

// next is for how long a slot waits now, of pauses of last at most.
func (w *waits) next(path string, last time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	x := w.known[path]
	switch {
	case x == nil:
		x = &waiting{pause: retryFirst, until: now.Add(retryFirst)}
		w.known[path] = x
	case !now.Before(x.until):
		x.pause *= 2
		x.until = now.Add(min(x.pause, last))
	}
	x.pause = min(x.pause, last)
	if latest := now.Add(last); x.until.After(latest) { // it waits for something else now
		x.until = latest
	}
	return x.until.Sub(now)
}

// forget says that a slot waits no more.
func (w *waits) forget(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, path)
}
