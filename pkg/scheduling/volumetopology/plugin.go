// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumetopology is the scheduler plugin VolumeTopology: it replaces
// VolumeBinding in a kube-scheduler profile. It is an adapter: package volumecache
// decides what fits, package binder writes it.
//
// To use it in another build of kube-scheduler, register New under Name, disable
// VolumeBinding in the profiles that enable VolumeTopology, and list VolumeTopology under
// postFilter, so that it runs before DefaultPreemption.
package volumetopology

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"

	compat "stowage.dev/kubecompat/plugin"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumecache/score"
)

// Name is the plugin's name in profiles and in the registry.
const Name = "VolumeTopology"

// Plugin is one profile's instance. All instances of a process that share an
// informer factory share one cache.
type Plugin struct {
	cache  *volumecache.Cache
	binder *binder.Binder
	score  score.Scorer
	handle fwk.Handle
	compat.PreFlight

	// lastVolume and lastNode are the verdicts on the last events, for hints.
	lastVolume atomic.Pointer[verdict[*v1.PersistentVolume]]
	lastNode   atomic.Pointer[verdict[*v1.Node]]
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PostFilterPlugin    = (*Plugin)(nil)
	_ fwk.PreScorePlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.PreBindPlugin       = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
)

// Name is the plugin's name.
func (*Plugin) Name() string { return Name }

// Cache is the cache that the plugin uses, shared by the profiles of a scheduler: for
// inspection.
func (p *Plugin) Cache() *volumecache.Cache { return p.cache }

// WaitForBindings returns when none of the profile's bindings is in progress, or when ctx
// ends. Call it after the scheduler's context has ended.
func (p *Plugin) WaitForBindings(ctx context.Context) { p.binder.Shutdown(ctx) }

// New creates the plugin for one profile. args are VolumeTopologyArgs of
// kubescheduler.config.k8s.io, decoded or raw; nil means all defaults. The returned error
// names the invalid field and the allowed values.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	cfg, err := configv1.DecodeArgs(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	metrics.Register()
	cache, err := caches.of(ctx, handle.SharedInformerFactory())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	client := handle.ClientSet()
	b, err := binder.New(binder.Config{
		Client:  client,
		Cache:   cache,
		Timeout: time.Duration(*cfg.BindTimeoutSeconds) * time.Second,
		Mode:    binder.Permitted(ctx, client, binder.Mode(cfg.BindingMode)),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	context.AfterFunc(ctx, func() { b.Shutdown(ctx) })
	p := &Plugin{
		cache:  cache,
		binder: b,
		score:  score.New(cfg.Scoring),
		handle: handle,

		PreFlight: preFlight,
	}
	p.activateOnRelease(ctx)
	return p, nil
}

// caches are the caches of this process by informer factory: all profiles of one
// scheduler share one, so that no volume is assigned twice; schedulers in one process are
// separate.
var caches = &cacheSet{caches: map[informers.SharedInformerFactory]*volumecache.Cache{}}

type cacheSet struct {
	mu     sync.Mutex
	caches map[informers.SharedInformerFactory]*volumecache.Cache
}

// of returns the factory's cache. It is created at the first call and removed when ctx
// ends.
func (s *cacheSet) of(ctx context.Context, factory informers.SharedInformerFactory) (*volumecache.Cache, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cache := s.caches[factory]; cache != nil {
		return cache, nil
	}
	cache, err := volumecache.New(volumecache.Config{Informers: factory})
	if err != nil {
		return nil, err
	}
	s.caches[factory] = cache
	unwatch := metrics.WatchCache(cache.Size)
	context.AfterFunc(ctx, func() {
		unwatch()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.caches, factory)
	})
	return cache, nil
}

// claimsSigner is the key of the plugin's fragment of a pod's signature.
const claimsSigner = "v1.Pod.Spec.Volumes.BoundClaims()"

// SignPod signs what the plugin's decisions depend on: the volume sources, and the volume
// of each bound claim. The stock fragment contains neither namespace nor volume, so
// claims of the same name in two namespaces would share cached results. A pod with an
// unbound claim is not signed: each such pod changes what the next one finds.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	fragments := []fwk.SignFragment{{Key: fwk.VolumesSignerName, Value: fwk.VolumesSigner(pod)}}
	if !claims.Any(pod) {
		return fragments, nil
	}
	bound := map[string]string{} // JSON sorts the keys
	for use := range claims.Used(pod) {
		claim := p.cache.Claim(pod.Namespace, use.Name)
		if claim == nil || !plan.IsBound(claim) {
			return nil, fwk.NewStatus(fwk.Unschedulable, "pod has a claim that is not bound")
		}
		bound[pod.Namespace+"/"+use.Name] = claim.Spec.VolumeName
	}
	return append(fragments, fwk.SignFragment{Key: claimsSigner, Value: bound}), nil
}
