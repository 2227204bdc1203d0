// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumecache is the engine: it turns informer events into an index of
// volumes and storage capacity by topology segment, keeps what pods in flight
// have reserved, and answers whether a pod's claims fit a node.
//
// There is one [Cache] per informer factory, shared by all scheduler profiles
// of a process, so that two profiles cannot give one volume away twice. It has
// no per-profile settings.
//
// Freshness. The scheduling queue and the cache hear informer events on
// separate listeners, in no order. A caller that was woken by an event
// therefore calls the matching Observe method first: it takes the object from
// the informer's store, which is never older than an event that was delivered,
// and the newer resourceVersion wins. Whatever else the stores have taken in before
// Demand is called counts too. Claims, classes and drivers are read from the
// informers' stores at every use.
package volumecache

import (
	"errors"
	"fmt"
	"sync"
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

// Cache is the engine. Safe for concurrent use; Fits and Usage run in parallel
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
	synced     []cache.DoneChecker
	started    sync.Once // what existed at the start has been seen

	scratch  sync.Pool // *solution
	watch    watchers
	compiled compiled
	behind   behind

	// mu guards all below. Nothing that blocks is called while it is held.
	mu       sync.RWMutex
	index    *topology.Index[content, shelves]
	volume   map[string]*volume
	byClaim  map[types.NamespacedName][]*volume // volumes whose claimRef names the claim
	class    map[string]*class
	version  uint64 // of the last change of any pool
	capacity map[types.NamespacedName]*capacity
	turn     uint64 // of the volume or capacity object that was taken in last
	// written holds claims as the API server returned them to a write of ours
	// that the informer has not shown yet.
	written map[types.NamespacedName]*v1.PersistentVolumeClaim
	// ephemeral are the claims that a pod owns, and whether that pod was seen to leave.
	ephemeral map[types.NamespacedName]bool
	// holds are the reservations by claim; byPod finds a pod's.
	holds map[types.NamespacedName]*hold
	byPod map[types.UID][]*hold
	// ledger is what reservations have released.
	ledger ledger
	// returning is the storage that is on its way back.
	returning returning
	nominated map[types.UID]*nomination
	startedAt time.Time
	// expected are pods that the informer has not shown yet; see ExpectPod.
	expected map[types.UID]struct{}
}

// content is what the engine keeps for a topology segment.
type content struct {
	pools []classPool      // free volumes; one per class, few
	room  [1]classPool     // where pools begin, close by
	first pool             // where the pool of one class lives, close by
	rooms map[string]*room // storage capacity by class
	home  *nodeEntry       // whose shelves the pools are on
	wide  bool             // the pools count as wide, see class
}

type (
	segment   = topology.Segment[content, shelves]
	nodeEntry = topology.Node[content, shelves]
)

// classPool is a segment's pool of one class. A list of these is quicker to
// search than a map: a node's storage is of few classes.
type classPool struct {
	class *class
	pool  *pool
}

// pool is the free volumes of one class in one segment. version is unique to
// its content, among all pools.
type pool struct {
	match.Pool
	version uint64
}

// poolOf returns the segment's pool of the class, nil when it has no free
// volume.
func poolOf(s *segment, of *class) *pool {
	for i := range s.Data.pools {
		if entry := &s.Data.pools[i]; entry.class == of {
			return entry.pool
		}
	}
	return nil
}

// Config says what a Cache is made of.
type Config struct {
	// Informers is the factory whose informers feed the cache. The caller
	// starts it, after New.
	Informers informers.SharedInformerFactory
	// Clock bounds how long capacity is held; nil is the real one.
	Clock clock.PassiveClock
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
		index:      topology.NewIndex[content, shelves](),
		volume:     map[string]*volume{},
		byClaim:    map[types.NamespacedName][]*volume{},
		class:      map[string]*class{},
		capacity:   map[types.NamespacedName]*capacity{},
		written:    map[types.NamespacedName]*v1.PersistentVolumeClaim{},
		ephemeral:  map[types.NamespacedName]bool{},
		holds:      map[types.NamespacedName]*hold{},
		byPod:      map[types.UID][]*hold{},
		returning:  returning{volumes: map[*segment]map[*volume]time.Time{}},
		nominated:  map[types.UID]*nomination{},
		expected:   map[types.UID]struct{}{},
	}
	c.scratch.New = func() any { return &solution{} }
	c.compiled.byClaim = map[types.NamespacedName]compiledClaim{}
	c.watch.byKey = map[watchKey]map[*watcher]struct{}{}
	c.ledger = ledger{listeners: map[*Listener]struct{}{}, released: map[release]uint64{}, refused: map[types.UID]*refusal{}}
	c.behind.missing = map[missed]string{}
	if err := c.listen(cfg.Informers); err != nil {
		return nil, fmt.Errorf("registering volume event handlers: %w", err)
	}
	return c, nil
}

// Ready blocks until every object that existed
// when the informers started has reached the cache, or stop is closed, and
// tells which.
func (c *Cache) Ready(stop <-chan struct{}) bool {
	for _, checker := range c.synced {
		select {
		case <-checker.Done():
		default:
			select {
			case <-checker.Done():
			case <-stop:
				return false
			}
		}
	}
	c.started.Do(func() {
		c.holdAllSelected()
		c.inheritNominations()
	})
	return true
}

// Size returns how much the cache holds now. It looks at each reservation.
func (c *Cache) Size() metrics.EngineSize {
	c.mu.RLock()
	defer c.mu.RUnlock()
	nodes, segments := c.index.Len()
	size := metrics.EngineSize{
		Volumes: len(c.volume), Nodes: nodes, Segments: segments, Reservations: len(c.holds),
		Provisioning: map[string]metrics.Provisioning{},
	}
	for _, h := range c.holds {
		if h.room == nil && !h.overdue {
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

// newer tells whether an object of resourceVersion a should take the place of
// one of resourceVersion b. Versions that are not comparable count as newer:
// the informer's order is then all there is.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

func keyOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}
