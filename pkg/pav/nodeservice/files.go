// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservice

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// files runs operations on the files of volumes, one at a time for each volume. The server of a file
// system that does not respond holds up no other volume. The zero value is ready.
type files struct {
	mu      sync.Mutex
	turns   map[string]*turn
	running sync.WaitGroup
}

// turn is held by the operation on a volume.
type turn struct {
	held  chan struct{} // has one element while the turn is held
	users int
}

// do calls operation when no other one runs for the volume, and returns its error. If ctx ends before,
// do returns; the operation then ends at some later time, and until then no other one begins.
func (f *files) do(ctx context.Context, volume string, operation func() error) error {
	t := f.enter(volume)
	select {
	case t.held <- struct{}{}:
	case <-ctx.Done():
		f.leave(volume, t)
		return fmt.Errorf("another operation on the volume does not end: %w", context.Cause(ctx))
	}
	result := make(chan error, 1)
	f.running.Go(func() {
		defer f.leave(volume, t)
		defer func() { <-t.held }()
		result <- operation()
	})
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the file system of the volume does not respond: %w", context.Cause(ctx))
	}
}

// responds is how long the file system of a volume may take to respond. Until then, kubelet does nothing
// else with the volume.
const responds = 20 * time.Second

// examine is files.do for an operation that the file system of the volume may hold up. ctx of the operation
// ends when its caller has gone.
func (v volume) examine(ctx context.Context, operation func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, responds)
	defer cancel()
	return v.files.do(ctx, v.key(), func() error { return operation(ctx) })
}

func (f *files) enter(volume string) *turn {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.turns[volume]
	if t == nil {
		if f.turns == nil {
			f.turns = map[string]*turn{}
		}
		t = &turn{held: make(chan struct{}, 1)}
		f.turns[volume] = t
	}
	t.users++
	return t
}

func (f *files) leave(volume string, t *turn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(f.turns, volume)
	}
}

// wait waits for all operations, for a limited time.
func (f *files) wait(limit time.Duration) {
	done := make(chan struct{})
	go func() { f.running.Wait(); close(done) }() // ends with the process if an operation never does
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// changes notifies waiters of objects by name. The zero value is ready.
type changes struct {
	mu  sync.Mutex
	all map[string]chan struct{}
}

// next returns a channel that is closed when the object changes after the call.
func (c *changes) next(name string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]chan struct{}{}
	}
	if c.all[name] == nil {
		c.all[name] = make(chan struct{})
	}
	return c.all[name]
}

// notify wakes the waiters of an object.
func (c *changes) notify(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed := c.all[name]; changed != nil {
		close(changed)
		delete(c.all, name)
	}
}
