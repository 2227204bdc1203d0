// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"context"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

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

// TestIndexFunctionsAreCalledFirst: what behind rests on. client-go does not promise
// it: an informer's store calls its index functions with each state that it takes in,
// before any handler is called with it, whether the state comes from the watch or from a
// list after the watch broke. (It does not call them for what such a list lacks.)
func TestIndexFunctionsAreCalledFirst(t *testing.T) {
	t.Parallel()
	source := fcache.NewFakeControllerSource()
	informer := cache.NewSharedIndexInformer(source, &v1.Node{}, 0, cache.Indexers{})
	indexed := make(chan *v1.Node, 16) // states that the index function was called with
	if err := informer.AddIndexers(cache.Indexers{"test": func(object any) ([]string, error) {
		indexed <- object.(*v1.Node)
		return nil, nil
	}}); err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 8)
	hear := func(what string, object any) {
		node, last := object.(*v1.Node), (*v1.Node)(nil)
		for len(indexed) > 0 {
			last = <-indexed
		}
		if what != "deleted" && (last == nil || last.Name != node.Name || last.ResourceVersion != node.ResourceVersion) {
			t.Errorf("%s: a handler is called with %s %s, the index function before with %v", what, node.Name, node.ResourceVersion, last)
		}
		heard <- what
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { hear("added", object) },
		UpdateFunc: func(_, object any) { hear("updated", object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			hear("deleted", object)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	defer running.Wait()
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		t.Fatal("the informer does not start")
	}
	object := func(name string) *v1.Node { return builders.MakeNode(name).UID("node-" + name).Obj() }
	for _, step := range []struct {
		want string
		do   func()
	}{
		{"added", func() { source.Add(object("a")) }},
		{"updated", func() { source.Modify(object("a")) }},
		{"deleted", func() { source.Delete(object("a")) }},
		{"added", func() { source.Add(object("b")) }},
		{"updated", func() { source.ModifyDropWatch(object("b")); source.ResetWatch() }},
	} {
		step.do()
		if got := <-heard; got != step.want {
			t.Fatalf("a node was %s, want %s", got, step.want)
		}
	}
}
