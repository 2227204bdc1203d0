// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package await lets tests and benchmarks wait for what events bring about, and for many requests.
package await

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
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

// Kind is the client of a kind of objects whose lists are L, such as Client.CoreV1().Pods(namespace).
type Kind[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Object watches an object, or all of its kind if name is empty, until is accepts one, and returns
// it. is is called with objects that exist. If ctx ends before, Object returns the last object
// seen, which may be nil, and the cause.
func Object[T, L runtime.Object](ctx context.Context, kind Kind[L], name string, is func(T) bool) (last T, err error) {
	named := func(o metav1.ListOptions) metav1.ListOptions {
		if name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return kind.List(ctx, named(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return kind.Watch(ctx, named(o))
		},
	}
	// T is a pointer to a type of objects.
	example, _ := reflect.TypeAssert[T](reflect.New(reflect.TypeFor[T]().Elem()))
	_, err = watchtools.UntilWithSync(ctx, lw, example, nil, func(e watch.Event) (bool, error) {
		object, ok := e.Object.(T)
		if !ok || e.Type == watch.Deleted {
			return false, nil
		}
		last = object
		return is(object), nil
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return last, err
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
