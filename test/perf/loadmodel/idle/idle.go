// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package idle makes informers that list and watch nothing. Their owner fills
// their stores and delivers events to the handlers, on its own thread: for
// measurements without an API server.
package idle

import (
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// NewFactory is a factory of such informers, for the kinds that the plugin
// watches. It must not be started.
func NewFactory() informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, kind := range []runtime.Object{
		&v1.Node{}, &v1.Pod{}, &v1.PersistentVolume{}, &v1.PersistentVolumeClaim{},
		&storagev1.StorageClass{}, &storagev1.CSIStorageCapacity{}, &storagev1.CSIDriver{}, &storagev1.CSINode{},
	} {
		factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
			return &Informer{SharedIndexInformer: cache.NewSharedIndexInformer(nil, kind, 0, byNamespace)}
		})
	}
	return factory
}

// InformerOf returns the factory's informer for the kind of object, which must
// be one of those.
func InformerOf(factory informers.SharedInformerFactory, kind runtime.Object) *Informer {
	return factory.InformerFor(kind, nil).(*Informer)
}

// Informer has event handlers for its owner to call. Only its store is safe for
// concurrent use.
type Informer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

// AddEventHandler keeps the handler.
func (i *Informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return delivered{}, nil
}

// HasSynced reports that the store has the initial objects.
func (*Informer) HasSynced() bool { return true }

// Event is one change of an object; Old is nil when it was added, Now when it
// was deleted.
type Event struct {
	Of       *Informer
	Old, Now any
}

// Deliver calls all handlers of the informer, and returns when they have.
func (e Event) Deliver() {
	for _, h := range e.Of.handlers {
		switch {
		case e.Old == nil:
			h.OnAdd(e.Now, false)
		case e.Now == nil:
			h.OnDelete(e.Old)
		default:
			h.OnUpdate(e.Old, e.Now)
		}
	}
}

// delivered reports that a handler has seen the initial objects: the
// owner makes no calls before that.
type delivered struct {
	cache.ResourceEventHandlerRegistration
}

func (delivered) HasSynced() bool { return true }
