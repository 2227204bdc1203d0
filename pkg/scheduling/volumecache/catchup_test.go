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

// TestBacklog: the store and the cache's handler receive states of one node, in the given
// order. Afterwards the backlog contains the node, or is empty.
func TestBacklog(t *testing.T) {
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
	handled := func(rv string) does {
		return func(_ *testing.T, _ cache.Store, h cache.ResourceEventHandler) { h.OnAdd(version(rv), false) }
	}
	deleted := func(rv string) does {
		return func(_ *testing.T, _ cache.Store, h cache.ResourceEventHandler) { h.OnDelete(version(rv)) }
	}
	for name, tc := range map[string]struct {
		events []does
		want   bool // the backlog contains the node
	}{
		"not handled yet":                             {[]does{put("1")}, true},
		"handled":                                     {[]does{put("1"), handled("1")}, false},
		"only the previous state handled":             {[]does{put("1"), put("2"), handled("1")}, true},
		"both states handled":                         {[]does{put("1"), put("2"), handled("1"), handled("2")}, false},
		"deletion handled":                            {[]does{put("1"), handled("1"), remove, deleted("2")}, false},
		"deleted before its creation was handled":     {[]does{put("1"), remove, handled("1"), deleted("1")}, false},
		"recreated, deletion handled":                 {[]does{put("1"), handled("1"), remove, put("3"), deleted("2")}, true},
		"recreated, deletion and creation handled":    {[]does{put("1"), handled("1"), remove, put("3"), deleted("2"), handled("3")}, false},
		"listed again unchanged after a broken watch": {[]does{put("1"), handled("1"), put("1")}, true},
		"deletion not handled yet":                    {[]does{put("1"), handled("1"), remove}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, observed := &Cache{}, 0
			c.backlog.missing = map[objectRef]string{}
			nodes := &syncer{func(types.NamespacedName) bool { return false }, func(string, string) { observed++ }}
			store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, c.backlog.indexers(nodes))
			handler := backlogHandler(c, nodes, func(*v1.Node) {}, func(*v1.Node) {})
			for _, event := range tc.events {
				event(t, store, handler)
			}
			if got := len(c.backlog.missing) > 0; got != tc.want || c.backlog.some.Load() != tc.want {
				t.Errorf("the backlog is %t: %v, want %t", c.backlog.some.Load(), c.backlog.missing, tc.want)
			}
			c.backlog.catchUp(c.mu.RLocker())
			if observed > 0 != tc.want || c.backlog.some.Load() || len(c.backlog.missing) > 0 {
				t.Errorf("observed %d objects, and the backlog is %t: %v", observed, c.backlog.some.Load(), c.backlog.missing)
			}
		})
	}
}

// TestIndexFunctionsAreCalledFirst: the backlog depends on this, and client-go does not
// guarantee it: an informer's store calls its index functions with each state that it
// receives before any handler is called with it, from the watch as well as from a
// list after the watch was interrupted. (It does not call them for what such a list
// lacks.)
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
	received := make(chan string, 8)
	receive := func(what string, object any) {
		node, last := object.(*v1.Node), (*v1.Node)(nil)
		for len(indexed) > 0 {
			last = <-indexed
		}
		if what != "deleted" && (last == nil || last.Name != node.Name || last.ResourceVersion != node.ResourceVersion) {
			t.Errorf("%s: a handler was called with %s %s, the index function before with %v", what, node.Name, node.ResourceVersion, last)
		}
		received <- what
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { receive("added", object) },
		UpdateFunc: func(_, object any) { receive("updated", object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			receive("deleted", object)
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
		t.Fatal("the informer does not sync")
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
		if got := <-received; got != step.want {
			t.Fatalf("event %s, want %s", got, step.want)
		}
	}
}
