// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// informer is an informer of objects that are in memory. Its handlers are called by start, and then while objects are
// added, changed and removed, in the calling goroutine: when a change returns, all caches have it. It is not safe for
// concurrent changes.
type informer struct {
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
	started  bool
}

var _ cache.SharedIndexInformer = (*informer)(nil)

// newInformer makes an informer of the objects.
func newInformer[T any](objects []T) *informer {
	i := &informer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	for _, object := range objects {
		_ = i.indexer.Add(object) // fails for objects without metadata only
	}
	return i
}

// start calls the handlers of informers for all objects. Handlers run at the same time, as those of other informers do,
// and have returned when start does.
func start(informers map[reflect.Type]*informer) {
	var running sync.WaitGroup
	for _, i := range informers {
		i.started = true
		for _, h := range i.handlers {
			running.Go(func() { i.replay(h) })
		}
	}
	running.Wait()
}

// replay calls a handler for all objects.
func (i *informer) replay(handler cache.ResourceEventHandler) {
	for _, object := range i.indexer.List() {
		handler.OnAdd(object, true)
	}
}

// set adds an object, or replaces the one of its name.
func (i *informer) set(object any) {
	old, exists, _ := i.indexer.Get(object)
	_ = i.indexer.Update(object)
	for _, h := range i.handlers {
		if exists {
			h.OnUpdate(old, object)
		} else {
			h.OnAdd(object, false)
		}
	}
}

// remove removes the object of the same name.
func (i *informer) remove(object any) {
	_ = i.indexer.Delete(object)
	for _, h := range i.handlers {
		h.OnDelete(object)
	}
}

// AddEventHandler adds a handler, which is called for all objects once the informer is started.
func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	if i.started {
		i.replay(handler)
	}
	return synced{}, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (i *informer) GetStore() cache.Store                                           { return i.indexer }
func (i *informer) GetIndexer() cache.Indexer                                       { return i.indexer }
func (i *informer) GetController() cache.Controller                                 { return nil }
func (i *informer) Run(<-chan struct{})                                             {}
func (i *informer) RunWithContext(context.Context)                                  {}
func (i *informer) HasSynced() bool                                                 { return true }
func (i *informer) HasSyncedChecker() cache.DoneChecker                             { return synced{} }
func (i *informer) LastSyncResourceVersion() string                                 { return "" }
func (i *informer) SetWatchErrorHandler(cache.WatchErrorHandler) error              { return nil }
func (i *informer) SetTransform(cache.TransformFunc) error                          { return nil }
func (i *informer) IsStopped() bool                                                 { return false }

// AddIndexers adds indexers, except those of a plugin of which there is another instance.
func (i *informer) AddIndexers(indexers cache.Indexers) error {
	indexers = maps.Clone(indexers)
	maps.DeleteFunc(indexers, func(name string, _ cache.IndexFunc) bool { return i.indexer.GetIndexers()[name] != nil })
	return i.indexer.AddIndexers(indexers)
}

func (i *informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// synced is the registration of a handler that has been called for all objects.
type synced struct{}

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "snapshot" }
func (synced) Done() <-chan struct{}               { return closed }
