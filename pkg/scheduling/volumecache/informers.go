// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// listen registers the cache's event handlers. CSIDrivers and CSINodes need
// none: they are read from the informers' stores.
func (c *Cache) listen(factory informers.SharedInformerFactory) error {
	core, storage := factory.Core().V1(), factory.Storage().V1()
	c.synced = append(c.synced, storage.CSIDrivers().Informer().HasSynced, storage.CSINodes().Informer().HasSynced)
	volumes := &syncer{c.volumeCurrent, func(_, name string) { c.ObserveVolume(name) }}
	nodes := &syncer{c.nodeCurrent, func(_, name string) { c.ObserveNode(name) }}
	claims := &syncer{c.claimCurrent, c.ObserveClaim}
	capacities := &syncer{c.capacityCurrent, c.ObserveCapacity}
	for _, listener := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
		syncer   *syncer // nil: no decision depends on what the cache keeps of these
	}{
		{core.Nodes().Informer(), backlogHandler(c, nodes, c.nodeUpdated, c.nodeDeleted), nodes},
		{core.PersistentVolumes().Informer(), backlogHandler(c, volumes, c.ApplyVolume, c.volumeDeleted), volumes},
		{core.PersistentVolumeClaims().Informer(), backlogHandler(c, claims, c.claimUpdated, c.claimDeleted), claims},
		{core.Pods().Informer(), handler(c.podUpdated, c.podDeleted), nil},
		{storage.StorageClasses().Informer(), handler(nil, c.classDeleted), nil},
		{storage.CSIStorageCapacities().Informer(), backlogHandler(c, capacities, c.capacityUpdated, c.capacityDeleted), capacities},
	} {
		if listener.syncer != nil {
			if err := listener.informer.AddIndexers(c.backlog.indexers(listener.syncer)); err != nil {
				return err
			}
		}
		registration, err := listener.informer.AddEventHandler(listener.handler)
		if err != nil {
			return err
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	return nil
}

// handler calls updated for added and updated objects, and deleted for deleted ones.
// updated may be nil.
func handler[T metav1.Object](updated, deleted func(T)) cache.ResourceEventHandler {
	update := func(object any) {
		if typed, ok := object.(T); ok && updated != nil {
			updated(typed)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    update,
		UpdateFunc: func(_, object any) { update(object) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if typed, ok := object.(T); ok {
				deleted(typed)
			}
		},
	}
}

// backlogHandler is handler for a kind whose informer adds to the backlog.
func backlogHandler[T metav1.Object](c *Cache, kind *syncer, updated, deleted func(T)) cache.ResourceEventHandler {
	return handler(func(object T) {
		updated(object)
		c.backlog.handled(kind, object)
	}, func(object T) {
		deleted(object)
		c.backlog.deleted(kind, object)
	})
}

func (c *Cache) nodeUpdated(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setNode(node)
}

func (c *Cache) capacityUpdated(object *storagev1.CSIStorageCapacity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setCapacity(object)
}

func (c *Cache) podDeleted(pod *v1.Pod) {
	c.mu.Lock()
	c.endNomination(pod.UID)
	if terminating(pod) {
		c.noteTerminating(pod)
	}
	delete(c.expected, pod.UID)
	c.rejections.drop(pod.UID)
	c.mu.Unlock()
	c.watch.notify(watchKey{kind: watchPod, namespace: pod.Namespace, name: pod.Name})
}
