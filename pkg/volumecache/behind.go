// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"fmt"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	kind            *follower
	namespace, name string
}

// follower brings the cache up to what the informer's store has of an object.
type follower struct {
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
	b.missing[missed{kind, object.GetNamespace(), object.GetName()}] = object.GetResourceVersion()
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
	key := missed{kind, object.GetNamespace(), object.GetName()}
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

// catchUp brings the cache up to all that the stores have.
func (b *behind) catchUp() {
	if !b.some.Load() {
		return
	}
	b.catching.Lock()
	b.mu.Lock()
	missing := b.missing
	b.missing = map[missed]string{}
	b.mu.Unlock()
	for object := range missing {
		object.kind.observe(object.namespace, object.name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.some.Store(len(b.missing) > 0)
	b.catching.Unlock() // before mu: whoever empties missing next settles it
}
