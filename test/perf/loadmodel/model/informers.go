// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// newInformers is a factory whose informers list and watch nothing, for the
// kinds that the engine follows.
func newInformers() informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, kind := range []runtime.Object{
		&v1.Node{}, &v1.Pod{}, &v1.PersistentVolume{}, &v1.PersistentVolumeClaim{},
		&storagev1.StorageClass{}, &storagev1.CSIStorageCapacity{}, &storagev1.CSIDriver{}, &storagev1.CSINode{},
	} {
		factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
			return &informer{SharedIndexInformer: cache.NewSharedIndexInformer(nil, kind, 0, byNamespace)}
		})
	}
	return factory
}

// informerOf returns the factory's informer for the kind of object.
func informerOf(factory informers.SharedInformerFactory, kind runtime.Object) *informer {
	return factory.InformerFor(kind, nil).(*informer)
}

// informer keeps the event handlers for the model to call.
type informer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

// AddEventHandler keeps the handler.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return delivered{}, nil
}

// event is one change of an object; old is nil when it was added, now when it
// was deleted.
type event struct {
	of       *informer
	old, now any
}

func (e event) deliver() {
	for _, h := range e.of.handlers {
		switch {
		case e.old == nil:
			h.OnAdd(e.now, false)
		case e.now == nil:
			h.OnDelete(e.old)
		default:
			h.OnUpdate(e.old, e.now)
		}
	}
}

// delivered says that a handler has seen all that existed at the start: the
// model asks for nothing before that.
type delivered struct{}

func (delivered) HasSynced() bool                     { return true }
func (delivered) HasSyncedChecker() cache.DoneChecker { return delivered{} }
func (delivered) Name() string                        { return "load model" }
func (delivered) Done() <-chan struct{}               { return closed }

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
