// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// Demand is what a pod asks of the cache, compiled once per scheduling cycle:
// everything that does not depend on the node. Safe for concurrent Fits and
// Usage calls.
type Demand struct {
	pod    *v1.Pod
	bound  []*v1.PersistentVolumeClaim
	groups []group
	// delayed counts the claims of all groups.
	delayed int
	memo    *memo
	// whatIf is what evicting pods would give back, by node; see Evict.
	whatIf map[string][]Freed
	// withheld is what nominated pods need; nil: nothing. See Withhold.
	withheld *withheld
	// besides is what others may take of capacity; see Besides.
	besides map[CapacityPool]int64
	// refused: the ledger knows that the pod was; shared by clones.
	refused *atomic.Bool
}

// group is a pod's delayed claims of one class; they compete for the same
// volumes and the same capacity.
type group struct {
	class      *class
	provisions bool // something can make volumes of the class
	// provisioner is the value for the storage-provisioner annotations.
	provisioner string
	tracked     bool // storage capacity bounds what can be made
	pending     []pending
}

// pending is a delayed claim.
type pending struct {
	*match.Request
	key types.NamespacedName
	// place is the claim's place among the pod's delayed claims.
	place int
	// selected is the node that has been chosen for provisioning; "" if none is, or
	// if it is void, see selectedNode.
	selected string
}

// Pod is the pod that the demand was compiled from.
func (d *Demand) Pod() *v1.Pod { return d.pod }

// HasUnboundClaims tells whether any claim of the pod still has to be bound.
func (d *Demand) HasUnboundClaims() bool { return d.delayed > 0 }

// Demand compiles what the pod asks for. A refusal means that no node will do
// until one of the pod's claims or classes changes; an error that a claim
// cannot be understood.
func (c *Cache) Demand(pod *v1.Pod) (*Demand, *claims.Refusal, error) {
	c.behind.catchUp(c.mu.RLocker())
	c.expireDue()
	set, refusal := claims.Classify(pod, c)
	if refusal != nil {
		return nil, refusal, nil
	}
	d := &Demand{pod: pod, bound: set.Bound, delayed: len(set.Delayed), refused: &atomic.Bool{}}
	for place, delayed := range set.Delayed {
		request, err := c.request(delayed.Claim)
		if err != nil {
			return nil, nil, err
		}
		g := d.groupOf(delayed.Class)
		g.pending = append(g.pending, pending{
			Request: request, key: keyOf(delayed.Claim), place: place,
			selected: c.selectedNode(delayed),
		})
		if request.Selector != nil && d.memo == nil {
			d.memo = &memo{}
		}
	}
	for i := range d.groups {
		if err := c.prepare(&d.groups[i]); err != nil {
			return nil, nil, err
		}
	}
	for _, claim := range d.bound {
		c.catchUp(claim.Spec.VolumeName)
	}
	return d, nil, nil
}

func (d *Demand) groupOf(object *storagev1.StorageClass) *group {
	for i := range d.groups {
		if d.groups[i].class.name == object.Name {
			return &d.groups[i]
		}
	}
	// A stand-in until prepare finds the shared entry.
	d.groups = append(d.groups, group{class: &class{name: object.Name, object: object}})
	return &d.groups[len(d.groups)-1]
}

// compiled keeps the requests of claims with a selector, which users make of any size:
// each event has the claims of all waiting pods compiled, under the scheduling queue's
// lock. Safe for concurrent use.
type compiled struct {
	mu      sync.Mutex
	byClaim map[types.NamespacedName]compiledClaim // of claims that the informer has
}

// compiledClaim is what a state of a claim was compiled to.
type compiledClaim struct {
	claim   *v1.PersistentVolumeClaim
	request *match.Request
	err     error
}

// of tells whether the claim, as it is, was compiled.
func (k compiledClaim) of(claim *v1.PersistentVolumeClaim) bool {
	return k.claim == claim ||
		k.claim != nil && k.claim.UID == claim.UID && k.claim.ResourceVersion == claim.ResourceVersion
}

// request compiles a claim, once for each state of it.
func (c *Cache) request(claim *v1.PersistentVolumeClaim) (*match.Request, error) {
	if claim.Spec.Selector == nil {
		return match.NewRequest(claim)
	}
	c.compiled.mu.Lock()
	known := c.compiled.byClaim[keyOf(claim)]
	c.compiled.mu.Unlock()
	if known.of(claim) {
		return known.request, known.err
	}
	request, err := match.NewRequest(claim)
	c.compiled.mu.Lock()
	defer c.compiled.mu.Unlock()
	if _, gone := c.claims.PersistentVolumeClaims(claim.Namespace).Get(claim.Name); gone == nil {
		c.compiled.byClaim[keyOf(claim)] = compiledClaim{claim, request, err}
	}
	return request, err
}

// drop forgets a claim that the informer has no longer.
func (k *compiled) drop(key types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byClaim, key)
}

// prepare fills in what is known of the group's class.
func (c *Cache) prepare(g *group) error {
	object := g.class.object
	requests := make([]*match.Request, len(g.pending))
	for i := range g.pending {
		requests[i] = g.pending[i].Request
	}
	if g.class = c.syncClass(object, requests); g.class == nil {
		return fmt.Errorf("storageclass %q was deleted or replaced while the pod was being scheduled", object.Name)
	}
	if g.provisions = provisions(object); !g.provisions {
		return nil
	}
	g.provisioner = provisionerAnnotation(object)
	// Only drivers that opt in publish capacity (KEP-1472).
	if driver, err := c.drivers.Get(object.Provisioner); err == nil {
		g.tracked = driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
	}
	return nil
}

// catchUp takes in a volume that a claim names and that the cache has not
// seen yet.
func (c *Cache) catchUp(name string) {
	c.mu.RLock()
	known := c.volume[name] != nil
	c.mu.RUnlock()
	if !known {
		c.ObserveVolume(name)
	}
}

// selectedNode is the node that the claim's selected-node names. Users write that
// annotation, too. It is void where nothing provisions the class, and if the informer
// lacks the node; the binder asks the API server for the node before it overwrites
// the annotation.
func (c *Cache) selectedNode(of claims.Delayed) string {
	if node := claims.SelectedNode(of.Claim); node != "" && provisions(of.Class) && c.NodeExists(node) {
		return node
	}
	return ""
}

// Selected calls yield with each existing node that a claim of the pod is to be
// provisioned on, as its selected-node says.
func (d *Demand) Selected(yield func(node string) bool) {
	for i := range d.groups {
		for j := range d.groups[i].pending {
			if node := d.groups[i].pending[j].selected; node != "" && !yield(node) {
				return
			}
		}
	}
}

// AsksOf tells whether a delayed claim of the pod is of the class.
func (d *Demand) AsksOf(class string) bool {
	return slices.ContainsFunc(d.groups, func(g group) bool { return g.class.name == class })
}

// MadeBy tells whether a delayed claim of the pod is of a class that the
// provisioner serves.
func (d *Demand) MadeBy(provisioner string) bool {
	return slices.ContainsFunc(d.groups, func(g group) bool { return g.provisions && g.provisioner == provisioner })
}

// Tracked calls yield with each class whose storage capacity bounds what is made
// for the pod, and the bytes that the pod's claims ask of it which have no node
// yet.
func (d *Demand) Tracked(yield func(class string, bytes int64) bool) {
	for i := range d.groups {
		g, bytes := &d.groups[i], int64(0)
		for j := range g.pending {
			if g.pending[j].selected == "" {
				bytes = saturate(bytes, g.pending[j].Bytes)
			}
		}
		if g.tracked && bytes > 0 && !yield(g.class.name, bytes) {
			return
		}
	}
}

// AnyTracked reports whether storage capacity bounds what is made for the pod.
func (d *Demand) AnyTracked() bool {
	for range d.Tracked {
		return true
	}
	return false
}

// CapacityPool identifies the storage capacity of a class in a segment.
type CapacityPool struct{ room *room }

// CapacityPools adds to pools those that claims without a node would be
// provisioned from on the node, with the bytes that the claims request.
func (c *Cache) CapacityPools(d *Demand, node *v1.Node, pools map[CapacityPool]int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	segments := c.spotOf(node).segments
	for class, bytes := range d.Tracked {
		for _, segment := range segments {
			if r := segment.Data.rooms[class]; r != nil && r.newest != nil {
				pools[CapacityPool{r}] = bytes
			}
		}
	}
}

// AddPendingUsage makes the demand account for bytes that other pods may take of capacity
// pools. Call it before the demand is shared; bytes must not change afterwards.
func (d *Demand) AddPendingUsage(bytes map[CapacityPool]int64) {
	if len(d.besides) > 0 { // what is withheld
		bytes = maps.Clone(bytes)
		for pool, more := range d.besides {
			bytes[pool] = saturate(bytes[pool], more)
		}
	}
	d.besides = bytes
}

// Clone returns a demand whose what-if can be changed without touching d.
func (d *Demand) Clone() *Demand {
	clone := *d
	clone.whatIf = maps.Clone(d.whatIf)
	return &clone
}

// Claim returns the newest state of a claim that is known, nil for none.
func (c *Cache) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil
	}
	c.mu.RLock()
	written := c.written[types.NamespacedName{Namespace: namespace, Name: name}]
	c.mu.RUnlock()
	if written != nil && written.UID == claim.UID && newer(written.ResourceVersion, claim.ResourceVersion) {
		return written
	}
	return claim
}

// Class returns the storage class, nil for none.
func (c *Cache) Class(name string) *storagev1.StorageClass {
	class, err := c.classes.Get(name)
	if err != nil {
		return nil
	}
	return class
}

// memo keeps, for one scheduling cycle, what a claim with a label selector
// found in a pool that several nodes share, so that a selector which the label
// index cannot serve is not evaluated over a whole zone for each node.
type memo struct {
	mu    sync.Mutex
	found map[memoKey]memoEntry
}

type memoKey struct {
	place int
	pool  *pool
}

type memoEntry struct {
	version uint64
	volumes []*match.Volume
}

// cheapest returns the k best volumes of the pool for the request; read only.
// k is the same at every call for a claim and pool.
func (m *memo) cheapest(p *pool, of *pending, k int) []*match.Volume {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := memoKey{of.place, p}
	entry, ok := m.found[key]
	if !ok || entry.version != p.version {
		entry = memoEntry{p.version, p.Cheapest(of.Request, k, nil)}
		if m.found == nil {
			m.found = map[memoKey]memoEntry{}
		}
		m.found[key] = entry
	}
	return entry.volumes
}
