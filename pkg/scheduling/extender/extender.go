// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extender serves kube-scheduler's extender protocol
// (k8s.io/kube-scheduler/extender/v1). Like the scheduler plugin it is an adapter:
// package volumecache decides what fits, package binder writes it.
//
// # State
//
// Filter, prioritize and preempt reserve nothing. Bind reserves for the duration of the
// call; what it has begun is in the API: claimRef on volumes, selected-node on claims. So
// a restart loses nothing, and replicas do not coordinate: each write is a
// compare-and-swap, so if two replicas choose one volume, one write fails and its pod is
// scheduled again. Only storage capacity has no object to compare and swap: two replicas
// that answer at the same time can both assign it, within the milliseconds until each
// observes the other's selected-node. Leader election prevents that.
package extender

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumecache/score"
)

// Config configures an Extender. Settings, Client and Informers are required.
type Config struct {
	// Settings must be valid and defaulted.
	Settings *extender.ExtenderConfiguration
	// Client writes bindings.
	Client kubernetes.Interface
	// Informers update the cache. The caller starts them, after New.
	Informers informers.SharedInformerFactory
	// Clock is for expiries; nil is the real one.
	Clock clock.PassiveClock
}

// Extender answers calls. Safe for concurrent use.
type Extender struct {
	settings extender.ExtenderConfiguration
	client   kubernetes.Interface
	cache    *volumecache.Cache
	binder   *binder.Binder // nil in mode Advisory
	score    score.Scorer

	nodes    corelisters.NodeLister
	pods     corelisters.PodLister
	indexed  cache.Indexer // pods, see ephemeralOn
	pins     *nodePins     // mode Full
	gate     *gate
	inflight *inflight // mode Advisory

	// binding waits for binds that outlive their calls.
	binding sync.WaitGroup
}

// New creates an extender. ctx bounds the check of permissions and the metrics, and has
// the logger.
func New(ctx context.Context, c Config) (*Extender, error) {
	if c.Settings == nil || c.Client == nil || c.Informers == nil {
		return nil, errors.New("extender: Settings, Client and Informers must be set")
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	metrics.RegisterExtender() // first: values set on unregistered metrics are lost
	pods := c.Informers.Core().V1().Pods()
	if err := pods.Informer().AddIndexers(cache.Indexers{ephemeralOn: indexEphemeral}); err != nil {
		return nil, fmt.Errorf("index pods with ephemeral volumes: %w", err)
	}
	store, err := volumecache.New(volumecache.Config{Informers: c.Informers, Clock: c.Clock})
	if err != nil {
		return nil, err
	}
	e := &Extender{
		settings: *c.Settings.DeepCopy(),
		client:   c.Client,
		cache:    store,
		score:    score.New(c.Settings.Scoring),
		nodes:    c.Informers.Core().V1().Nodes().Lister(),
		pods:     pods.Lister(),
		indexed:  pods.Informer().GetIndexer(),
		pins:     newNodePins(c.Clock, c.Settings.Timeouts.Hold.Duration),
	}
	if e.gate, err = newGate(c.Settings.Timeouts.Verb.Duration, c.Informers); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, store.OnRelease(func(func() []*v1.Pod) { e.gate.observe() }))
	context.AfterFunc(ctx, metrics.WatchCache(store.Size))
	if c.Settings.Mode == extender.ModeAdvisory {
		e.inflight = newInflight(c.Clock, c.Settings.Timeouts.Hold.Duration)
		return e, nil
	}
	if e.binder, err = binder.New(binder.Config{
		Client: c.Client, Cache: store, Timeout: c.Settings.Timeouts.Verb.Duration,
		Mode: binder.Permitted(ctx, c.Client, binder.Mode(c.Settings.BindingMode)),
	}); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { e.binder.Shutdown(ctx) })
	return e, nil
}

// Cache returns the cache that the extender uses, for inspection.
func (e *Extender) Cache() *volumecache.Cache { return e.cache }

// errNotReady means that the initial objects have not been observed yet.
var errNotReady = &callError{http.StatusServiceUnavailable, outcomeNotReady, "volumes, claims and nodes are still being read from the API server"}

// Ready returns why calls cannot be answered yet; nil if they can.
func (e *Extender) Ready() error {
	now := make(chan struct{})
	close(now)
	if !e.cache.Ready(now) {
		return errNotReady
	}
	return nil
}

// Wait returns when no bind is in progress. Call it after the server of the handler has
// stopped.
func (e *Extender) Wait() { e.binding.Wait() }
