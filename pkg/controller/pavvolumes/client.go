// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/loop"
)

// Clients read and write the kinds of PaV. They are safe for concurrent use.
type Clients struct {
	Volumes      *gentype.ClientWithList[*stowage.PavVolume, *stowage.PavVolumeList]
	Provisioners *gentype.ClientWithList[*stowage.PavProvisioner, *stowage.PavProvisionerList]
}

// NewClients returns clients of the API server that config names.
func NewClients(config *rest.Config) (*Clients, error) {
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
	}, nil
}

// lister lists and watches objects of a kind.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// newInformer returns an informer of all objects of a kind, without managed fields.
func newInformer[L runtime.Object](client lister[L], kind runtime.Object) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}, kind, 0, cache.Indexers{})
	if err := informer.SetTransform(loop.WithoutManagedFields); err != nil {
		return nil, fmt.Errorf("make an informer of %T: %w", kind, err)
	}
	return informer, nil
}
