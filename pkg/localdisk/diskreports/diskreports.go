// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskreports reads and writes LocalDiskReports and LocalDisks: clients, and an informer of
// the reports of all nodes.
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
	client, codec, err := restClient(config)
	if err != nil {
		return nil, err
	}
	return gentype.NewClientWithList("localdiskreports", client, codec, "",
		func() *stowage.LocalDiskReport { return &stowage.LocalDiskReport{} },
		func() *stowage.LocalDiskReportList { return &stowage.LocalDiskReportList{} }), nil
}

// DiskClient reads and writes disks.
type DiskClient = gentype.ClientWithList[*stowage.LocalDisk, *stowage.LocalDiskList]

// NewDiskClient makes a client of LocalDisks.
func NewDiskClient(config *rest.Config) (*DiskClient, error) {
	client, codec, err := restClient(config)
	if err != nil {
		return nil, err
	}
	return gentype.NewClientWithList("localdisks", client, codec, "",
		func() *stowage.LocalDisk { return &stowage.LocalDisk{} },
		func() *stowage.LocalDiskList { return &stowage.LocalDiskList{} }), nil
}

func restClient(config *rest.Config) (*rest.RESTClient, runtime.ParameterCodec, error) {
	scheme := runtime.NewScheme()
	if err := stowage.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("make a client of stowage.dev: %w", err)
	}
	config = rest.CopyConfig(config)
	version := stowage.SchemeGroupVersion
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of stowage.dev: %w", err)
	}
	return client, runtime.NewParameterCodec(scheme), nil
}

// NewInformer makes an informer of the reports of all nodes. Its objects are shared: do not
// change them. Managed fields are removed.
func NewInformer(client *Client) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}, &stowage.LocalDiskReport{}, 0, cache.Indexers{})
	if err := informer.SetTransform(loop.WithoutManagedFields); err != nil {
		return nil, fmt.Errorf("make an informer of reports: %w", err)
	}
	return informer, nil
}
