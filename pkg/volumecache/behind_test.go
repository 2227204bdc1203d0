// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestBehind: the store and the cache's handler take in one node's states, in the order
// told. In the end the cache is behind of it, or nothing is remembered.
func TestBehind(t *testing.T) {
	t.Parallel()
	version := func(rv string) *v1.Node { return builders.MakeNode("n").ResourceVersion(rv).Obj() }
	type does func(t *testing.T, store cache.Store, handler cache.ResourceEventHandler)
	put := func(rv string) does {
		return func(t *testing.T, store cache.Store, _ cache.ResourceEventHandler) {
			if err := store.Update(version(rv)); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(t *testing.T, store cache.Store, _ cache.ResourceEventHandler) {
		if err := store.Delete(version("")); err != nil {
			t.Fatal(err)
		}
	}
	told := func(rv string) does {
		return func(_ *testing.T, _ cache.Store, h cache.ResourceEventHandler) { h.OnAdd(version(rv), false) }
	}
	gone := func(rv string) does {
		return func(_ *testing.T, _ cache.Store, h cache.ResourceEventHandler) { h.OnDelete(version(rv)) }
	}
	for story, tc := range map[string]struct {
		events []does
		behind bool
	}{
		"not told yet":             {[]does{put("1")}, true},
		"told":                     {[]does{put("1"), told("1")}, false},
		"told of the state before": {[]does{put("1"), put("2"), told("1")}, true},
		"told of both":             {[]does{put("1"), put("2"), told("1"), told("2")}, false},
		"told of its end":          {[]does{put("1"), told("1"), remove, gone("2")}, false},
		"told of its end only":     {[]does{put("1"), remove, told("1"), gone("1")}, false},
		"told of the end of one of the same name":   {[]does{put("1"), told("1"), remove, put("3"), gone("2")}, true},
		"told of the end and of the next":           {[]does{put("1"), told("1"), remove, put("3"), gone("2"), told("3")}, false},
		"shown again as it was, when a watch broke": {[]does{put("1"), told("1"), put("1")}, true},
		"not told of its end yet":                   {[]does{put("1"), told("1"), remove}, true},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			c, asked := &Cache{}, 0
			c.behind.missing = map[missed]string{}
			nodes := &follower{func(types.NamespacedName) bool { return false }, func(string, string) { asked++ }}
			store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, c.behind.indexers(nodes))
			handler := following(c, nodes, func(*v1.Node) {}, func(*v1.Node) {})
			for _, event := range tc.events {
				event(t, store, handler)
			}
			if got := len(c.behind.missing) > 0; got != tc.behind || c.behind.some.Load() != tc.behind {
				t.Errorf("the cache is behind: %t of %v, want %t", c.behind.some.Load(), c.behind.missing, tc.behind)
			}
			c.behind.catchUp(c.mu.RLocker())
			if asked > 0 != tc.behind || c.behind.some.Load() || len(c.behind.missing) > 0 {
				t.Errorf("caught up with %d, and is behind: %t of %v", asked, c.behind.some.Load(), c.behind.missing)
			}
		})
	}
}
