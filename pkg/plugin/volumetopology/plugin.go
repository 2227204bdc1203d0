// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumetopology is the scheduler plugin VolumeTopology: it takes the
// place of VolumeBinding in a kube-scheduler profile. It only adapts: what fits
// is decided by package volumecache, what is written by package binder.
//
// To use it in another build of kube-scheduler, register New under Name and
// disable VolumeBinding in the profiles that enable VolumeTopology.
package volumetopology

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/apis/config"
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/binder"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/volumecache"
)

// Name is the plugin's name in profiles and in the registry.
const Name = "VolumeTopology"

// Plugin is one profile's instance. All instances of a process that share an
// informer factory share one cache.
type Plugin struct {
	cache  *volumecache.Cache
	binder *binder.Binder
	client kubernetes.Interface
	score  scorer
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PreScorePlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.PreBindPlugin       = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
)

// Name is the plugin's name.
func (*Plugin) Name() string { return Name }

// Cache is the engine that the plugin asks, shared by the profiles of a
// scheduler: for those who look into a running scheduler.
func (p *Plugin) Cache() *volumecache.Cache { return p.cache }

// New makes the plugin for one profile. args are VolumeTopologyArgs of
// kubescheduler.config.k8s.io, decoded or raw; nil means all defaults. The
// returned error names the field that is wrong and what is allowed.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	cfg, err := configv1.DecodeArgs(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	metrics.Register()
	cache, err := engines.of(ctx, handle.SharedInformerFactory())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	client := handle.ClientSet()
	b, err := binder.New(binder.Config{
		Client:  client,
		Cache:   cache,
		Timeout: time.Duration(cfg.BindTimeoutSeconds) * time.Second,
		Mode:    modeFor(ctx, cfg, client),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return &Plugin{cache: cache, binder: b, client: client, score: newScorer(cfg.Scoring)}, nil
}

// rightsTimeout bounds the question whether Direct binding is allowed.
const rightsTimeout = 10 * time.Second

// modeFor is the configured binding mode, or PVController where Direct is
// configured and the scheduler has not the rights for it.
func modeFor(ctx context.Context, cfg *config.VolumeTopologyArgs, client kubernetes.Interface) binder.Mode {
	if cfg.BindingMode == config.BindingModePVController {
		return binder.PVController
	}
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	missing, err := binder.Allowed(ctx, client)
	logger := klog.FromContext(ctx)
	switch {
	case err != nil:
		// Nothing was denied; a write that is will say so itself.
		logger.Error(err, "Could not ask for the rights that bindingMode Direct needs, assuming them")
	case len(missing) > 0:
		metrics.SetDirectBindingDisabled(true)
		logger.Info("WARNING: bindingMode Direct is not allowed, leaving bindings to the PV controller; grant the missing rules or set bindingMode: PVController", logkeys.Missing, missing)
		return binder.PVController
	}
	return binder.Direct
}
