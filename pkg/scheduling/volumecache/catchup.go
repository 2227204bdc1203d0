// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"fmt"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// backlog is the objects that the informers' stores contain and the cache's handlers
// have not processed yet. The scheduling queue may have processed their events before
// it had the pod: a pod rejected because such an object is missing would not be woken
// again. The backlog is empty most of the time. Safe for concurrent use.
type backlog struct {
	some     atomic.Bool // something is missing, or catchUp is running
	catching sync.Mutex

	// mu guards missing. Stores are locked when they call stored, so nothing is
	// called while mu is held.
	mu      sync.Mutex
	missing map[objectRef]string // by object, its resourceVersion in the store
	most    int                  // the largest number of entries that missing has had
}

// keptEntries is the largest number of entries that missing may have had to be reused
// once it is empty. Maps do not shrink, and at the start missing contains everything.
const keptEntries = 1024

// objectRef is an object of one kind.
type objectRef struct {
	kind *syncer
	key  types.NamespacedName
}

func refTo(kind *syncer, object metav1.Object) objectRef {
	return objectRef{kind, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// syncer updates what the cache keeps of one kind of objects.
type syncer struct {
	// current reports whether the cache matches the informer's store; the caller holds the
	// cache's lock.
	current func(key types.NamespacedName) bool
	// observe updates the cache to the state of the store, or to the object's deletion.
	observe func(namespace, name string)
}

// indexers add each object that an informer's store receives to the backlog. They index
// nothing.
func (b *backlog) indexers(kind *syncer) cache.Indexers {
	name := fmt.Sprintf("stowage.dev/backlog-%p", b) // one factory may have several caches
	return cache.Indexers{name: func(object any) ([]string, error) {
		if typed, ok := object.(metav1.Object); ok {
			b.stored(kind, typed)
		}
		return nil, nil
	}}
}

func (b *backlog) stored(kind *syncer, object metav1.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing[refTo(kind, object)] = object.GetResourceVersion()
	b.most = max(b.most, len(b.missing))
	b.some.Store(true)
}

// handled removes an object that the cache has processed.
func (b *backlog) handled(kind *syncer, object metav1.Object) {
	b.drop(kind, object, func(missing string) bool { return missing == object.GetResourceVersion() })
}

// deleted removes an object whose deletion the cache has processed; a new one of the
// same name may have been created since.
func (b *backlog) deleted(kind *syncer, object metav1.Object) {
	b.drop(kind, object, func(missing string) bool { return !newer(missing, object.GetResourceVersion()) })
}

// drop removes an object if the cache has processed the state in the store.
func (b *backlog) drop(kind *syncer, object metav1.Object, processed func(missing string) bool) {
	key := refTo(kind, object)
	b.mu.Lock()
	defer b.mu.Unlock()
	missing, there := b.missing[key]
	if !there || !processed(missing) {
		return
	}
	delete(b.missing, key)
	if len(b.missing) > 0 || !b.catching.TryLock() { // else catchUp updates some
		return
	}
	defer b.catching.Unlock()
	if b.most > keptEntries {
		b.missing, b.most = map[objectRef]string{}, 0
	}
	b.some.Store(false)
}

// catchUp updates the cache to the state of the stores. lock is the cache's, for
// reading: after a watch was interrupted the stores receive everything again, and an
// unchanged object must cost no more than a comparison.
func (b *backlog) catchUp(lock sync.Locker) {
	if !b.some.Load() {
		return
	}
	b.catching.Lock()
	b.mu.Lock()
	missing := b.missing
	b.missing = map[objectRef]string{}
	b.mu.Unlock()
	var stale []objectRef
	lock.Lock()
	for object := range missing {
		if !object.kind.current(object.key) {
			stale = append(stale, object)
		}
	}
	lock.Unlock()
	for _, object := range stale {
		object.kind.observe(object.key.Namespace, object.key.Name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.some.Store(len(b.missing) > 0)
	b.catching.Unlock() // before mu: the next drop that empties missing can update some
}
