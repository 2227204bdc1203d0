// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claimbinder binds claims of late-binding classes without a pod, where an annotation of
// the claim requests it; see docs/design/claim-binder.md.
//
// An event marks a class. A run for the class assigns volumes to all its pending claims
// together, in the order of their creation, and reserves them. Workers bind the claims.
package claimbinder

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"

	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

const (
	// workers bind claims at once.
	workers = 16
	// maxBinding bounds the claims of a class that are being bound, so that one class does not
	// delay others.
	maxBinding = 100
	// A claim that could not be bound is tried again after retryFirst, then with a growing delay.
	retryFirst, retryLast = 200 * time.Millisecond, time.Minute
	// bindTimeout bounds one attempt to bind. It does not include the time of a provisioner.
	bindTimeout = time.Minute
	// shutdownTime is how long writes of the last attempts may take when the controller stops.
	shutdownTime = 7 * time.Second
)

// Config configures a Controller.
type Config struct {
	// Client may do what manifests/controller/bind-now.yaml allows.
	Client kubernetes.Interface
	// Informers are not started yet.
	Informers informers.SharedInformerFactory
	Events    events.EventRecorder
	// Annotations of claims that mean the same as stowage.dev/bind: Now.
	Annotations []rules.Annotation
}

// Controller binds claims. Only the leader runs it.
type Controller struct {
	Config
	volumes *volumecache.Cache
	binder  *binder.Binder
	claims  cache.SharedIndexInformer
	pods    cache.SharedIndexInformer

	classes, binding loop.Queue // names of classes; claims that have a plan, namespace/name
	backoff          workqueue.TypedRateLimiter[string]

	mu sync.Mutex
	// state is what the controller records about claims beside their objects, by namespace/name.
	state map[string]*state
	// onNode has the claims that are being bound on a node, by its name.
	onNode map[string]sets.Set[string]
	// runs has the classes with claims that wait.
	runs map[string]*history
	// counted counts events that may concern a class.
	counted uint64
}

// history is what is kept of the runs for a class.
type history struct {
	waiting int    // claims that wait
	last    uint64 // the number of the last event that may concern the class
	// reported counts the events about claims since the time.
	reported int
	since    time.Time
}

// New returns a Controller; Run starts it.
func New(config Config) (*Controller, error) {
	core := config.Informers.Core().V1()
	c := &Controller{
		Config: config, claims: core.PersistentVolumeClaims().Informer(), pods: core.Pods().Informer(),
		classes: loop.NewQueue("bind_now_classes", retryFirst, retryLast), binding: loop.NewQueue("bind_now_claims", retryFirst, retryLast),
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast),
		state:   map[string]*state{}, onNode: map[string]sets.Set[string]{}, runs: map[string]*history{},
	}
	var err error
	if c.volumes, err = volumecache.New(volumecache.Config{Informers: config.Informers, ByClass: true}); err != nil {
		return nil, err
	}
	c.binder, err = binder.New(binder.Config{Client: config.Client, Cache: c.volumes, Timeout: bindTimeout, Mode: binder.Direct})
	if err != nil {
		return nil, err
	}
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("watch claims and what they need: %w", err)
	}
	metrics.RegisterController()
	return c, nil
}

// Run works until ctx ends and all writes have ended.
func (c *Controller) Run(ctx context.Context) error {
	if !c.volumes.Ready(ctx.Done()) {
		return fmt.Errorf("list volumes and claims: %w", context.Cause(ctx))
	}
	defer c.volumes.OnRelease(func(func() []*corev1.Pod) { c.enqueueWaiting() })()
	defer metrics.SetClaimsWaitingForBinding(0)
	for _, class := range c.claims.GetIndexer().ListIndexFuncValues(byClass) {
		c.enqueueClass(class)
	}
	var running sync.WaitGroup
	running.Go(func() { loop.RunPaced(ctx, c.classes, c.assign) })
	running.Go(func() { loop.Run(ctx, c.binding, workers, c.bind) })
	running.Wait()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	c.binder.Shutdown(limited)
	return nil
}
