// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/scheduling/topology"
)

// listen registers the cache's event handlers. CSIDrivers and CSINodes need
// none: they are read from the informers' stores, once these have them.
func (c *Cache) listen(factory informers.SharedInformerFactory) error {
	core, storage := factory.Core().V1(), factory.Storage().V1()
	c.synced = append(c.synced, storage.CSIDrivers().Informer().HasSyncedChecker(), storage.CSINodes().Informer().HasSyncedChecker())
	volumes := &follower{c.hasVolume, func(_, name string) { c.ObserveVolume(name) }}
	nodes := &follower{c.hasNode, func(_, name string) { c.ObserveNode(name) }}
	claims := &follower{c.hasClaim, c.ObserveClaim}
	capacities := &follower{c.hasCapacity, c.ObserveCapacity}
	for _, listener := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
		follower *follower // nil: nothing is decided by what the cache has of these
	}{
		{core.Nodes().Informer(), following(c, nodes, c.nodeSeen, c.removeNode), nodes},
		{core.PersistentVolumes().Informer(), following(c, volumes, c.ApplyVolume, c.removeVolume), volumes},
		{core.PersistentVolumeClaims().Informer(), following(c, claims, c.claimSeen, c.claimGone), claims},
		{core.Pods().Informer(), handler(c.podSeen, c.podGone), nil},
		{storage.StorageClasses().Informer(), handler(nil, c.removeClass), nil},
		{storage.CSIStorageCapacities().Informer(), following(c, capacities, c.capacitySeen, c.removeCapacity), capacities},
	} {
		if listener.follower != nil {
			if err := listener.informer.AddIndexers(c.behind.indexers(listener.follower)); err != nil {
				return err
			}
		}
		registration, err := listener.informer.AddEventHandler(listener.handler)
		if err != nil {
			return err
		}
		c.synced = append(c.synced, registration.HasSyncedChecker())
	}
	return nil
}

// handler makes an event handler of typed functions: seen for what is added or
// updated, gone for what is deleted. seen may be nil.
func handler[T metav1.Object](seen, gone func(T)) cache.ResourceEventHandler {
	see := func(object any) {
		if typed, ok := object.(T); ok && seen != nil {
			seen(typed)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if typed, ok := object.(T); ok {
				gone(typed)
			}
		},
	}
}

// following is handler for a kind whose store tells what it takes in.
func following[T metav1.Object](c *Cache, kind *follower, seen, gone func(T)) cache.ResourceEventHandler {
	return handler(func(object T) {
		seen(object)
		c.behind.told(kind, object)
	}, func(object T) {
		gone(object)
		c.behind.gone(kind, object)
	})
}

func (c *Cache) nodeSeen(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setNode(node)
}

func (c *Cache) capacitySeen(object *storagev1.CSIStorageCapacity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setCapacity(object)
}

func (c *Cache) podGone(pod *v1.Pod) {
	c.mu.Lock()
	c.endNomination(pod.UID)
	if leaving(pod) {
		c.noteLeaving(pod)
	}
	delete(c.expected, pod.UID)
	c.ledger.dropRefusal(pod.UID)
	c.mu.Unlock()
	c.watch.notify(watchKey{kind: watchPod, namespace: pod.Namespace, name: pod.Name})
}

// ownedByPod tells whether the claim was made for a generic ephemeral volume.
func ownedByPod(claim *v1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return owner != nil && owner.Kind == "Pod" && owner.APIVersion == "v1"
}

// admitted tells whether the affinity admits the node.
func admitted(affinity *v1.VolumeNodeAffinity, node *v1.Node) bool {
	return topology.FromNodeAffinity(affinity).Admits(node)
}
