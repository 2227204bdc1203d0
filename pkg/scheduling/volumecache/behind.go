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

// behind knows what the informers' stores have taken in and the cache's handlers
// have not been told of yet. The scheduling queue may have heard of it before it
// had the pod; refused for the want of it, the pod would not be woken again. It
// is empty but for moments. Safe for concurrent use.
type behind struct {
	some     atomic.Bool // something is missing, or being taken in
	catching sync.Mutex

	// mu guards missing. Stores are locked when they call taken, so nothing is
	// called while mu is held.
	mu      sync.Mutex
	missing map[missed]string // by object, its resourceVersion in the store
	most    int               // entries that missing has had
}

// keptEntries is how many entries missing may have had to be kept once it is empty.
// Maps do not shrink, and at the start everything is in it.
const keptEntries = 1024

// missed is an object of one kind that the cache may lag behind of.
type missed struct {
	kind *follower
	key  types.NamespacedName
}

func missedOf(kind *follower, object metav1.Object) missed {
	return missed{kind, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// follower brings the cache up to what the informer's store has of an object, or
// that it has none any more.
type follower struct {
	// has tells whether there is nothing to do; the caller holds the cache's lock.
	has     func(key types.NamespacedName) bool
	observe func(namespace, name string)
}

// indexers have an informer's store tell what it takes in. They index nothing.
func (b *behind) indexers(kind *follower) cache.Indexers {
	name := fmt.Sprintf("stowage.dev/behind-%p", b) // one factory may have several caches
	return cache.Indexers{name: func(object any) ([]string, error) {
		if typed, ok := object.(metav1.Object); ok {
			b.taken(kind, typed)
		}
		return nil, nil
	}}
}

func (b *behind) taken(kind *follower, object metav1.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing[missedOf(kind, object)] = object.GetResourceVersion()
	b.most = max(b.most, len(b.missing))
	b.some.Store(true)
}

// told says that the cache has heard of an object.
func (b *behind) told(kind *follower, object metav1.Object) {
	b.drop(kind, object, func(missing string) bool { return missing == object.GetResourceVersion() })
}

// gone says that the cache has heard of an object's end; another one of its name may
// have come since.
func (b *behind) gone(kind *follower, object metav1.Object) {
	b.drop(kind, object, func(missing string) bool { return !newer(missing, object.GetResourceVersion()) })
}

// drop forgets an object if what the store has of it is known by now.
func (b *behind) drop(kind *follower, object metav1.Object, known func(missing string) bool) {
	key := missedOf(kind, object)
	b.mu.Lock()
	defer b.mu.Unlock()
	missing, there := b.missing[key]
	if !there || !known(missing) {
		return
	}
	delete(b.missing, key)
	if len(b.missing) > 0 || !b.catching.TryLock() { // else catchUp settles it
		return
	}
	defer b.catching.Unlock()
	if b.most > keptEntries {
		b.missing, b.most = map[missed]string{}, 0
	}
	b.some.Store(false)
}

// catchUp brings the cache up to all that the stores have. lock is the cache's, for
// reading: after a watch broke the stores take in everything again, and what is
// unchanged must not cost more than looking at it.
func (b *behind) catchUp(lock sync.Locker) {
	if !b.some.Load() {
		return
	}
	b.catching.Lock()
	b.mu.Lock()
	missing := b.missing
	b.missing = map[missed]string{}
	b.mu.Unlock()
	var stale []missed
	lock.Lock()
	for object := range missing {
		if !object.kind.has(object.key) {
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
	b.catching.Unlock() // before mu: whoever empties missing next settles it
}
