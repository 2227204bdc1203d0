// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/test/cluster"
)

const (
	parallelism = 32 // requests at a time
	waitLimit   = 10 * time.Minute
	namespace   = "default"
)

// world is the state of the cluster.
type world struct {
	client  kubernetes.Interface
	reports *diskreports.Client
	// volumes and claims are the informers' stores; changed has a value after each event.
	volumes, claims cache.Store
	changed         chan struct{}
}

// newWorld makes the kind of the reports. Its watches end with ctx.
func newWorld(ctx context.Context, c *cluster.Cluster) (*world, error) {
	w := &world{client: c.Client(), changed: make(chan struct{}, 1)}
	_, file, _, _ := runtime.Caller(0)
	if err := c.CreateFiles(ctx, filepath.Join(filepath.Dir(file), "../../../manifests/crd/stowage.dev_localdiskreports.yaml")); err != nil {
		return nil, err
	}
	var err error
	if w.reports, err = diskreports.NewClient(c.RESTConfig()); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(w.client, 0)
	volumes, claims := factory.Core().V1().PersistentVolumes().Informer(), factory.Core().V1().PersistentVolumeClaims().Informer()
	w.volumes, w.claims = volumes.GetStore(), claims.GetStore()
	news := func() {
		select {
		case w.changed <- struct{}{}:
		default: // a value is pending already
		}
	}
	for _, informer := range []cache.SharedIndexInformer{volumes, claims} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { news() }, UpdateFunc: func(any, any) { news() }, DeleteFunc: func(any) { news() },
		})
		if err != nil {
			return nil, err
		}
	}
	factory.StartWithContext(ctx)
	return w, nil
}

// await returns when something is so.
func (w *world) await(ctx context.Context, what string, is func() bool) error {
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	for !is() {
		select {
		case <-w.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("wait for %s: not within %s", what, waitLimit)
		}
	}
	return nil
}

// each does something with each number below n.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelism)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// lose deletes this number of nodes from the first on, and returns when all of their volumes have
// been removed.
func (w *world) lose(ctx context.Context, first, nodes int) error {
	err := each(ctx, nodes, func(ctx context.Context, n int) error {
		return w.client.CoreV1().Nodes().Delete(ctx, nodeName(first+n), metav1.DeleteOptions{})
	})
	if err != nil {
		return err
	}
	gone := func(store cache.Store, key func(n, disk int) string, each int) func() bool {
		return func() bool {
			for n := range nodes {
				for disk := range each {
					if _, there, _ := store.GetByKey(key(first+n, disk)); there {
						return false
					}
				}
			}
			return true
		}
	}
	if err := w.await(ctx, "the claims to be deleted", gone(w.claims, claimKey, claimsPerNode)); err != nil {
		return err
	}
	err = each(ctx, nodes*claimsPerNode, func(ctx context.Context, i int) error {
		return w.phase(ctx, volumeName(first+i/claimsPerNode, i%claimsPerNode), corev1.VolumeReleased)
	})
	if err != nil {
		return err
	}
	return w.await(ctx, "the volumes to be removed", gone(w.volumes, volumeName, volumesPerNode))
}
