// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskreports reads and writes LocalDiskReports, LocalDisks and LocalDiskTombstones: clients,
// and informers of the reports and the tombstones of all nodes.
package diskreports

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/loop"
)

// HeartbeatNamespace has a Lease for each node with a provisioner, named like the node.
const HeartbeatNamespace = "stowage-node-lease"

// A provisioner renews its Lease every HeartbeatInterval. If it has not for HeartbeatDuration,
// which is in the Lease, its report may be out of date.
const (
	HeartbeatInterval = 20 * time.Second
	HeartbeatDuration = 4 * HeartbeatInterval
)

// Client reads and writes reports.
type Client = gentype.ClientWithList[*stowage.LocalDiskReport, *stowage.LocalDiskReportList]

// NewClient makes a client.
func NewClient(config *rest.Config) (*Client, error) {
	return newClient(config, "localdiskreports",
		func() *stowage.LocalDiskReport { return &stowage.LocalDiskReport{} },
		func() *stowage.LocalDiskReportList { return &stowage.LocalDiskReportList{} })
}

// DiskClient reads and writes disks.
type DiskClient = gentype.ClientWithList[*stowage.LocalDisk, *stowage.LocalDiskList]

// NewDiskClient makes a client of LocalDisks.
func NewDiskClient(config *rest.Config) (*DiskClient, error) {
	return newClient(config, "localdisks",
		func() *stowage.LocalDisk { return &stowage.LocalDisk{} },
		func() *stowage.LocalDiskList { return &stowage.LocalDiskList{} })
}

// TombstoneClient reads and writes tombstones.
type TombstoneClient = gentype.ClientWithList[*stowage.LocalDiskTombstone, *stowage.LocalDiskTombstoneList]

// NewTombstoneClient makes a client of LocalDiskTombstones.
func NewTombstoneClient(config *rest.Config) (*TombstoneClient, error) {
	return newClient(config, "localdisktombstones",
		func() *stowage.LocalDiskTombstone { return &stowage.LocalDiskTombstone{} },
		func() *stowage.LocalDiskTombstoneList { return &stowage.LocalDiskTombstoneList{} })
}

// object is an API object.
type object interface {
	runtime.Object
	metav1.Object
}

func newClient[T object, L runtime.Object](config *rest.Config, resource string, one func() T, list func() L) (*gentype.ClientWithList[T, L], error) {
	scheme := runtime.NewScheme()
	if err := stowage.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make a client of stowage.dev: %w", err)
	}
	config = rest.CopyConfig(config)
	version := stowage.SchemeGroupVersion
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of stowage.dev: %w", err)
	}
	return gentype.NewClientWithList(resource, client, runtime.NewParameterCodec(scheme), "", one, list), nil
}

// NewInformer makes an informer of the reports of all nodes. Its objects are shared: do not
// change them. Managed fields are removed.
func NewInformer(client *Client) (cache.SharedIndexInformer, error) {
	return newInformer(client, &stowage.LocalDiskReport{})
}

// NewTombstoneInformer makes an informer of the tombstones of all nodes, as NewInformer does of reports.
func NewTombstoneInformer(client *TombstoneClient) (cache.SharedIndexInformer, error) {
	return newInformer(client, &stowage.LocalDiskTombstone{})
}

func newInformer[T object, L runtime.Object](client *gentype.ClientWithList[T, L], of T) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}, of, 0, cache.Indexers{})
	if err := informer.SetTransform(loop.WithoutManagedFields); err != nil {
		return nil, fmt.Errorf("make an informer of %T: %w", of, err)
	}
	return informer, nil
}
