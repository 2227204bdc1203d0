// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"sync"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// asking keeps disks that do not answer from holding up those that do. A question to a
// disk is put by a goroutine of its own; if there is no answer in time, that goroutine
// is left behind, and the disk is not asked again before it has ended.
type asking struct {
	mu    sync.Mutex
	stuck map[string]bool // paths
}

// ask puts a question to the disk at a path. Without an answer in time the error is a
// *disk.Problem, TimedOut.
func ask[T any](ctx context.Context, a *asking, path string, timeout time.Duration, question func(context.Context) (T, error)) (T, error) {
	var none T
	late := disk.Problemf(disk.TimedOut, "the disk at %s has not answered for %s", path, timeout)
	a.mu.Lock()
	if a.stuck[path] {
		a.mu.Unlock()
		return none, late
	}
	a.stuck[path] = true
	a.mu.Unlock()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	go func() {
		value, err := question(ctx)
		a.mu.Lock()
		delete(a.stuck, path)
		a.mu.Unlock()
		answers <- answer{value, err}
	}()
	select {
	case got := <-answers:
		return got.value, got.err
	case <-ctx.Done():
		return none, late
	}
}
