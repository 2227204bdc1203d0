// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"sync"

	"k8s.io/client-go/informers"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// caches are the caches of this process by informer factory: all profiles of one
// scheduler share one, so that no volume is assigned twice; schedulers in one process are
// separate.
var caches = &cacheSet{caches: map[informers.SharedInformerFactory]*volumecache.Cache{}}

type cacheSet struct {
	mu     sync.Mutex
	caches map[informers.SharedInformerFactory]*volumecache.Cache
}

// of returns the factory's cache. It is created at the first call and removed when ctx
// ends.
func (s *cacheSet) of(ctx context.Context, factory informers.SharedInformerFactory) (*volumecache.Cache, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cache := s.caches[factory]; cache != nil {
		return cache, nil
	}
	cache, err := volumecache.New(volumecache.Config{Informers: factory})
	if err != nil {
		return nil, err
	}
	s.caches[factory] = cache
	unwatch := metrics.WatchCache(cache.Size)
	context.AfterFunc(ctx, func() {
		unwatch()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.caches, factory)
	})
	return cache, nil
}
