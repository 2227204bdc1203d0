// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extender answers kube-scheduler's extender protocol
// (k8s.io/kube-scheduler/extender/v1) from the engine. It only adapts: what fits
// is decided by package volumecache, what is written by package binder, as for
// the scheduler plugin.
//
// # What is kept, and where
//
// Filter, prioritize and preempt reserve nothing. Bind reserves for as long as
// the call takes; what it has begun is in the API: claimRef on volumes,
// selected-node on claims. Hence a restart loses nothing, and replicas need not
// know of each other: each write is a compare-and-swap, so of two that want one
// volume one fails, and its pod is scheduled again. Only storage capacity is no
// object to compare and swap: two replicas that answer at the same time can
// both give it away, within the milliseconds until each sees the other's
// selected-node. Leader election closes that gap.
package extender

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"stowage.dev/stowage/pkg/apis/extender"
	"stowage.dev/stowage/pkg/binder"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/volumecache"
	"stowage.dev/stowage/pkg/volumecache/attempt"
	"stowage.dev/stowage/pkg/volumecache/score"
)

// Config is what an Extender is made of. Settings, Client and Informers are
// required.
type Config struct {
	// Settings are valid and defaulted.
	Settings *extender.ExtenderConfiguration
	// Client writes bindings.
	Client kubernetes.Interface
	// Informers feed the engine. The caller starts them, after New.
	Informers informers.SharedInformerFactory
	// Clock ends holds; nil is the real one.
	Clock clock.PassiveClock
}

// Extender answers calls. Safe for concurrent use.
type Extender struct {
	settings extender.ExtenderConfiguration
	client   kubernetes.Interface
	cache    *volumecache.Cache
	attempts *attempt.Attempts
	binder   *binder.Binder // nil in mode Advisory
	score    score.Scorer

	nodes    corelisters.NodeLister
	pods     corelisters.PodLister
	indexed  cache.Indexer // pods, see ephemeralOn
	holds    *holds        // mode Full
	gate     *gate
	inflight *inflight // mode Advisory

	// binding joins the binds that outlive their calls.
	binding sync.WaitGroup
}

// New makes an extender. ctx bounds the question for rights, and logs.
func New(ctx context.Context, c Config) (*Extender, error) {
	if c.Settings == nil || c.Client == nil || c.Informers == nil {
		return nil, errors.New("extender: Settings, Client and Informers must be set")
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	metrics.RegisterExtender() // first: metrics that are not registered forget what is set
	pods := c.Informers.Core().V1().Pods()
	if err := pods.Informer().AddIndexers(cache.Indexers{ephemeralOn: indexEphemeral}); err != nil {
		return nil, fmt.Errorf("index pods with ephemeral volumes: %w", err)
	}
	engine, err := volumecache.New(volumecache.Config{Informers: c.Informers, Clock: c.Clock})
	if err != nil {
		return nil, err
	}
	e := &Extender{
		settings: *c.Settings.DeepCopy(),
		client:   c.Client,
		cache:    engine,
		attempts: attempt.New(engine),
		score:    score.New(c.Settings.Scoring),
		nodes:    c.Informers.Core().V1().Nodes().Lister(),
		pods:     pods.Lister(),
		indexed:  pods.Informer().GetIndexer(),
		holds:    newHolds(c.Clock, c.Settings.Timeouts.Hold.Duration),
	}
	if e.gate, err = newGate(c.Settings.Timeouts.Verb.Duration, c.Informers); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, engine.OnRelease(func(func() []*v1.Pod) { e.gate.show() }))
	if c.Settings.Mode == extender.ModeAdvisory {
		e.inflight = newInflight(c.Clock, c.Settings.Timeouts.Hold.Duration)
		return e.measured(ctx), nil
	}
	if e.binder, err = binder.New(binder.Config{
		Client: c.Client, Cache: engine, Timeout: c.Settings.Timeouts.Verb.Duration,
		Mode: binder.Permitted(ctx, c.Client, binder.Mode(c.Settings.BindingMode)),
	}); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { e.binder.Settle(ctx) })
	return e.measured(ctx), nil
}

// measured makes the metrics known until ctx ends.
func (e *Extender) measured(ctx context.Context) *Extender {
	context.AfterFunc(ctx, metrics.WatchEngine(e.cache.Size))
	return e
}

// Engine is what the extender asks, for those who look into a running one.
func (e *Extender) Engine() *volumecache.Cache { return e.cache }

// errNotReady says that what exists has not been seen yet.
var errNotReady = errors.New("volumes, claims and nodes are still being read from the API server")

// Ready says why calls cannot be answered yet; nil if they can.
func (e *Extender) Ready() error {
	now := make(chan struct{})
	close(now)
	if !e.cache.Ready(now) {
		return errNotReady
	}
	return nil
}

// Wait returns when no bind is under way any more. Call it after the server that
// uses the extender's handler has ended.
func (e *Extender) Wait() { e.binding.Wait() }
