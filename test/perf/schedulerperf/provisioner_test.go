// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	compat "stowage.dev/kubecompat/schedulerperf"
)

const annSelectedNode = "volume.kubernetes.io/selected-node"

// provisioner answers at once: every claim with a selected node gets a
// volume there, of phase Bound, which is the joint result of a provisioner and the PV
// controller.
type provisioner struct {
	client kubernetes.Interface
	claims cache.Indexer
	queue  workqueue.TypedInterface[string] // claims by key
	fail   func(error)
}

// startProvisioner runs one until the workload is done.
func startProvisioner(tCtx compat.TContext) error {
	ctx, cancel := context.WithCancel(tCtx)
	factory := informers.NewSharedInformerFactory(tCtx.Client(), 0)
	informer := factory.Core().V1().PersistentVolumeClaims().Informer()
	p := &provisioner{
		client: tCtx.Client(),
		claims: informer.GetIndexer(),
		queue:  workqueue.NewTyped[string](),
		fail: func(err error) {
			if ctx.Err() == nil {
				tCtx.Errorf("provision: %v", err)
			}
		},
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.seen,
		UpdateFunc: func(_, claim any) { p.seen(claim) },
	}); err != nil {
		cancel()
		return err
	}
	var workers sync.WaitGroup
	for range writers {
		workers.Go(func() { p.work(ctx) })
	}
	tCtx.Cleanup(func() {
		cancel()
		p.queue.ShutDown()
		workers.Wait()
		factory.Shutdown()
	})
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("start the provisioner: the workload ended before it had seen the claims")
	}
	return nil
}

// seen queues a claim that waits for a volume.
func (p *provisioner) seen(object any) {
	claim, ok := object.(*v1.PersistentVolumeClaim)
	if ok && claim.Annotations[annSelectedNode] != "" && claim.Spec.VolumeName == "" {
		p.queue.Add(cache.MetaObjectToName(claim).String())
	}
}

func (p *provisioner) work(ctx context.Context) {
	for {
		key, quit := p.queue.Get()
		if quit {
			return
		}
		if err := p.provision(ctx, key); err != nil {
			p.fail(err)
		}
		p.queue.Done(key)
	}
}

func (p *provisioner) provision(ctx context.Context, key string) error {
	object, found, err := p.claims.GetByKey(key)
	if err != nil || !found {
		return err
	}
	claim, ok := object.(*v1.PersistentVolumeClaim)
	if !ok || claim.Spec.VolumeName != "" {
		return nil
	}
	err = makeVolume(ctx, p.client, provisionedVolume(claim, claim.Annotations[annSelectedNode]), v1.VolumeBound)
	if apierrors.IsAlreadyExists(err) {
		return nil // provisioned, and its claim changed before it was bound
	}
	return err
}
