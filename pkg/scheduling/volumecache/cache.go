// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumecache turns informer events into an index of volumes and storage
// capacity by topology segment, keeps what pods in flight have reserved, and decides
// whether a pod's claims fit a node.
//
// There is one [Cache] per informer factory, shared by all scheduler profiles
// of a process, so that two profiles cannot reserve the same volume. It has
// no per-profile settings.
//
// Freshness. The scheduling queue and the cache receive informer events on
// separate listeners, in no order. A caller that was woken by an event
// therefore calls the matching Observe method first: it reads the object from
// the informer's store, which is never older than a delivered event,
// and the newer resourceVersion wins. [Cache.Demand] also catches up with everything
// else that the stores contain. Claims, classes and drivers are read from the
// informers' stores at every use.
package volumecache

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/utils/clock"

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// Cache is the volume cache. Safe for concurrent use; Fits and Usage run in parallel
// with each other.
type Cache struct {
	clock      clock.PassiveClock
	translator csitranslation.CSITranslator

	pods       corelisters.PodLister
	nodes      corelisters.NodeLister
	claims     corelisters.PersistentVolumeClaimLister
	classes    storagelisters.StorageClassLister
	drivers    storagelisters.CSIDriverLister
	csiNodes   storagelisters.CSINodeLister
	volumes    corelisters.PersistentVolumeLister
	capacities storagelisters.CSIStorageCapacityLister
	synced     []cache.InformerSynced
	started    sync.Once   // runs once all objects of the initial lists were observed
	ready      atomic.Bool // whether started has run

	scratch    sync.Pool // *solution
	watch      watchers
	compiled   compiled
	backlog    backlog
	rejections rejections

	// mu guards all below. Nothing that blocks is called while it is held.
	mu       sync.RWMutex
	index    *index
	volume   map[string]*volume
	byClaim  map[types.NamespacedName][]*volume // volumes whose claimRef names the claim
	free     freePools
	capacity map[types.NamespacedName]*capacity
	newest   newestClaims
	// ephemeral are the claims that a pod owns; true if that pod was observed to terminate.
	ephemeral  map[types.NamespacedName]bool
	reserved   reservations
	releases   releases
	reclaiming reclaiming
	nominated  map[types.UID]*nomination
	startedAt  time.Time
	// expected are pods that the informer has not shown yet; see ExpectPod.
	expected map[types.UID]struct{}
}

// Config configures a Cache.
type Config struct {
	// Informers is the factory whose informers feed the cache. The caller
	// starts it, after New.
	Informers informers.SharedInformerFactory
	// Clock bounds how long capacity is held; nil is the real one.
	Clock clock.PassiveClock
	// ByClass keeps the free volumes also by class alone, which Assign and AssignAnywhere need.
	ByClass bool
}

// New makes a cache and registers its event handlers.
func New(cfg Config) (*Cache, error) {
	if cfg.Informers == nil {
		return nil, errors.New("volumecache: no informer factory")
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	core, storage := cfg.Informers.Core().V1(), cfg.Informers.Storage().V1()
	c := &Cache{
		clock:      cfg.Clock,
		translator: csitranslation.New(),
		pods:       core.Pods().Lister(),
		nodes:      core.Nodes().Lister(),
		claims:     core.PersistentVolumeClaims().Lister(),
		classes:    storage.StorageClasses().Lister(),
		drivers:    storage.CSIDrivers().Lister(),
		csiNodes:   storage.CSINodes().Lister(),
		volumes:    core.PersistentVolumes().Lister(),
		capacities: storage.CSIStorageCapacities().Lister(),
		index:      topology.NewIndex[content](),
		volume:     map[string]*volume{},
		byClaim:    map[types.NamespacedName][]*volume{},
		capacity:   map[types.NamespacedName]*capacity{},
		ephemeral:  map[types.NamespacedName]bool{},
		reclaiming: reclaiming{volumes: map[*segment]map[*volume]time.Time{}},
		nominated:  map[types.UID]*nomination{},
		expected:   map[types.UID]struct{}{},
	}
	c.scratch.New = func() any { return &solution{} }
	c.compiled.byClaim = map[types.NamespacedName]compiledClaim{}
	c.watch.byKey = map[watchKey]map[*watcher]struct{}{}
	c.backlog.missing = map[objectRef]string{}
	c.rejections = rejections{pods: c.pods, byPod: map[types.UID]*rejection{}}
	c.free = freePools{class: map[string]*class{}, byClass: cfg.ByClass}
	c.newest = newestClaims{claims: c.claims, written: map[types.NamespacedName]*v1.PersistentVolumeClaim{}}
	c.releases = releases{listeners: map[*Listener]struct{}{}, began: map[release]uint64{}, call: c.callListeners}
	c.reserved = reservations{
		clock: c.clock, index: c.index, claims: &c.newest, free: &c.free, releases: &c.releases,
		byClaim: map[types.NamespacedName]*hold{}, byPod: map[types.UID][]*hold{},
		sequence: 1, listing: true,
	}
	if err := c.listen(cfg.Informers); err != nil {
		return nil, fmt.Errorf("registering volume event handlers: %w", err)
	}
	return c, nil
}

// Ready blocks until the cache has observed every object that existed when the informers
// started, and returns true, or until stop is closed.
func (c *Cache) Ready(stop <-chan struct{}) bool {
	if c.ready.Load() {
		return true
	}
	if !cache.WaitForCacheSync(stop, c.synced...) {
		return false
	}
	c.started.Do(func() {
		c.holdAllSelected()
		c.inheritNominations()
		c.ready.Store(true)
	})
	return true
}

// Size returns the number of objects in the cache. It reads each reservation.
func (c *Cache) Size() metrics.CacheSize {
	c.mu.RLock()
	defer c.mu.RUnlock()
	nodes, segments := c.index.Len()
	size := metrics.CacheSize{
		Volumes: len(c.volume), Nodes: nodes, Segments: segments, Reservations: len(c.reserved.byClaim),
		Provisioning: map[string]metrics.Provisioning{},
	}
	for _, h := range c.reserved.byClaim {
		if h.pool == nil && !h.overdue {
			continue
		}
		class := match.ClaimClass(h.object)
		p := size.Provisioning[class]
		if h.overdue {
			p.Overdue++
		} else {
			p.Claims, p.Bytes = p.Claims+1, saturate(p.Bytes, h.bytes)
		}
		size.Provisioning[class] = p
	}
	return size
}

// newer reports whether an object of resourceVersion a replaces one of resourceVersion
// b. Versions that are not comparable count as newer: then only the order of the
// informer's events is known.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

func keyOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}
