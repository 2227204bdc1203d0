// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pavclient has the clients and informers of the kinds of PaV.
package pavclient

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/loop"
)

// Clients read and write the kinds of PaV. They are safe for concurrent use.
type Clients struct {
	Volumes      *gentype.ClientWithList[*stowage.PavVolume, *stowage.PavVolumeList]
	Provisioners *gentype.ClientWithList[*stowage.PavProvisioner, *stowage.PavProvisionerList]
	Stagings     *gentype.ClientWithList[*stowage.PavStaging, *stowage.PavStagingList]
}

// New returns clients of the API server that config names.
func New(config *rest.Config) (*Clients, error) {
	scheme := runtime.NewScheme()
	if err := stowage.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make clients of PaV: %w", err)
	}
	config = rest.CopyConfig(config)
	version := stowage.SchemeGroupVersion
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make clients of PaV: %w", err)
	}
	codec := runtime.NewParameterCodec(scheme)
	return &Clients{
		Volumes: gentype.NewClientWithList("pavvolumes", client, codec, "",
			func() *stowage.PavVolume { return &stowage.PavVolume{} },
			func() *stowage.PavVolumeList { return &stowage.PavVolumeList{} }),
		Provisioners: gentype.NewClientWithList("pavprovisioners", client, codec, "",
			func() *stowage.PavProvisioner { return &stowage.PavProvisioner{} },
			func() *stowage.PavProvisionerList { return &stowage.PavProvisionerList{} }),
		Stagings: gentype.NewClientWithList("pavstagings", client, codec, "",
			func() *stowage.PavStaging { return &stowage.PavStaging{} },
			func() *stowage.PavStagingList { return &stowage.PavStagingList{} }),
	}, nil
}

// Lister lists and watches objects of a kind.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// NewInformer returns an informer of the selected objects of a kind, without managed fields. kind is an
// example. Only fields that the kind declares as selectable, and metadata.name, can be selected.
func NewInformer[L runtime.Object](client Lister[L], kind runtime.Object, selected fields.Selector) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selected.String()
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selected.String()
			return client.Watch(ctx, o)
		},
	}, kind, 0, cache.Indexers{})
	if err := informer.SetTransform(loop.WithoutManagedFields); err != nil {
		return nil, fmt.Errorf("make an informer of %T: %w", kind, err)
	}
	return informer, nil
}
