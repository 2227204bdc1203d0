// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package await lets tests and benchmarks wait for what events bring about, and for many requests.
package await

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/cache"
)

// Changes wakes waiters when their condition may have become true. The zero value is ready. Safe
// for concurrent use.
type Changes struct {
	mu   sync.Mutex
	next chan struct{} // closed by Notify; nil: nothing waits
}

// Notify wakes all waiters.
func (c *Changes) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Handler calls Notify on each event of an informer.
func (c *Changes) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.Notify() }, UpdateFunc: func(any, any) { c.Notify() }, DeleteFunc: func(any) { c.Notify() },
	}
}

// Wait waits until is returns true, which is called now and after each Notify; at most for the limit, 0 being none.
func (c *Changes) Wait(ctx context.Context, limit time.Duration, what string, is func() bool) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for {
		c.mu.Lock()
		if c.next == nil {
			c.next = make(chan struct{})
		}
		next := c.next
		c.mu.Unlock()
		if is() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// parallelism is how many requests are sent at a time while objects are made.
const parallelism = 64

// Each does something with each number below n, some at a time.
func Each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelism)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
