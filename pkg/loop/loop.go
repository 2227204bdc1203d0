// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loop has what controllers, provisioners and node services have in common: workqueues and
// informers.
package loop

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// ErrStale is returned by a reconciliation whose input is out of date. The key is requeued like
// after any error, without a log line.
var ErrStale = errors.New("the object has changed since it was read")

// Queue has the keys that a controller has to reconcile.
type Queue = workqueue.TypedRateLimitingInterface[string]

// NewQueue returns a queue that retries failed keys after first, then with a growing delay up to
// last.
func NewQueue(name string, first, last time.Duration) Queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](first, last),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name})
}

// Run reconciles the keys of a queue until ctx ends, then shuts the queue down and waits for the
// workers. reconcile returns after which time to reconcile the key again; zero if only an event
// enqueues it. A key that failed is requeued.
func Run(ctx context.Context, queue Queue, workers int, reconcile func(ctx context.Context, key string) (time.Duration, error)) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for key, ok := next(ctx, queue, reconcile); ok; key, ok = next(ctx, queue, reconcile) {
				queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	running.Wait()
}

// pauses is how many times as long as it took RunPaced waits before it reconciles a key again.
const pauses = 9

// RunPaced is Run with one worker, for reconciliations that take long where there are many objects: those
// of one key take at most a tenth of the time, whatever the number of events.
func RunPaced(ctx context.Context, queue Queue, reconcile func(ctx context.Context, key string) (time.Duration, error)) {
	var running sync.WaitGroup
	running.Go(func() {
		begin := time.Now()
		timed := func(ctx context.Context, key string) (time.Duration, error) {
			begin = time.Now()
			return reconcile(ctx, key)
		}
		for key, ok := next(ctx, queue, timed); ok; key, ok = next(ctx, queue, timed) {
			pause := time.After(pauses * time.Since(begin))
			running.Go(func() {
				defer queue.Done(key) // until then events only mark it
				select {
				case <-pause:
				case <-ctx.Done():
				}
			})
		}
	})
	<-ctx.Done()
	queue.ShutDown()
	running.Wait()
}

// next waits for a key and reconciles it. The caller calls Done. ok is false after the queue was shut down.
func next(ctx context.Context, queue Queue, reconcile func(context.Context, string) (time.Duration, error)) (key string, ok bool) {
	key, shutdown := queue.Get()
	if shutdown {
		return "", false
	}
	if ctx.Err() == nil { // the next leader reconciles the remaining keys
		process(ctx, queue, key, reconcile)
	}
	return key, true
}

func process(ctx context.Context, queue Queue, key string, reconcile func(context.Context, string) (time.Duration, error)) {
	after, err := reconcile(ctx, key)
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		if !errors.Is(err, ErrStale) {
			klog.FromContext(ctx).Error(err, "Failed to reconcile; requeuing", "key", key)
		}
		queue.AddRateLimited(key)
	default:
		queue.Forget(key)
		if after > 0 {
			queue.AddAfter(key, after)
		}
	}
}

// Watch calls changed for every event of an informer with the object before it, which is nil for
// added and deleted objects, and with its last state.
func Watch(informer cache.SharedIndexInformer, changed func(before, object any)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, object) },
		UpdateFunc: changed,
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			changed(nil, object)
		},
	})
	return err
}

// WatchEach calls changed with the object of every event of an informer, and for updates with the
// object before it, too.
func WatchEach(informer cache.SharedIndexInformer, changed func(object any)) error {
	return Watch(informer, func(before, object any) {
		if before != nil {
			changed(before)
		}
		changed(object)
	})
}

// Tally calls add for each object that an informer adds, with what count returns for it and 1, and for
// each that it deletes with -1; for an update with both, unless they are the same.
func Tally[T any, S comparable](informer cache.SharedIndexInformer, count func(*T) S, add func(S, float64)) error {
	changed := func(object any, more float64) {
		if typed, ok := object.(*T); ok {
			add(count(typed), more)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { changed(object, 1) },
		UpdateFunc: func(before, object any) {
			old, ok := before.(*T)
			if now, also := object.(*T); ok && also && count(old) == count(now) {
				return
			}
			changed(before, -1)
			changed(object, 1)
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			changed(object, -1)
		},
	})
	return err
}

// List returns the objects of an informer with a key of an index, which must exist; all without an
// index.
func List[T any](informer cache.SharedIndexInformer, index, key string) (all []*T) {
	objects := informer.GetStore().List()
	if index != "" {
		var err error
		objects, err = informer.GetIndexer().ByIndex(index, key)
		utilruntime.Must(err)
	}
	for _, object := range objects {
		if found, ok := object.(*T); ok {
			all = append(all, found)
		}
	}
	return all
}

// WithoutManagedFields is a transform of informers that saves memory.
func WithoutManagedFields(object any) (any, error) {
	if of, ok := object.(metav1.Object); ok && of.GetManagedFields() != nil { // an object may be transformed twice
		of.SetManagedFields(nil)
	}
	return object, nil
}

// Factory has informers, as [k8s.io/client-go/informers.SharedInformerFactory], which imports the
// informers of all kinds.
type Factory interface {
	Start(stop <-chan struct{})
	WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool
	Shutdown()
}

// Start starts informers that one controller uses alone, and waits until they are synced. stop
// ends them and waits for their goroutines; call it after an error, too.
func Start(ctx context.Context, factories ...Factory) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	stop = func() {
		cancel()
		for _, factory := range factories {
			factory.Shutdown()
		}
	}
	for _, factory := range factories {
		factory.Start(ctx.Done())
	}
	for _, factory := range factories {
		for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return stop, fmt.Errorf("list %s: %w", kind, context.Cause(ctx))
			}
		}
	}
	return stop, nil
}
