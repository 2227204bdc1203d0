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

// Demand is a pod's claims, compiled once per scheduling cycle:
// everything that does not depend on the node. Safe for concurrent Fits and
// Usage calls.
type Demand struct {
	pod    *v1.Pod
	bound  []*v1.PersistentVolumeClaim
	groups []group
	// delayed is the number of claims of all groups.
	delayed int
	memo    *memo
	// evictions is what simulated evictions free, by node; see SimulateEviction.
	evictions map[string][]Freed
	// withheld is what nominated pods need; nil: nothing. See Withhold.
	withheld *withheld
	// pendingUsage is what other pods may take of capacity; see AddPendingUsage.
	pendingUsage map[CapacityPool]int64
	// rejected: the rejections contain the pod; shared by clones.
	rejected *atomic.Bool
}

// group is a pod's delayed claims of one class; they compete for the same
// volumes and the same capacity.
type group struct {
	class      *class
	provisions bool // the class has a provisioner
	// provisioner is the value for the storage-provisioner annotations.
	provisioner string
	tracked     bool // storage capacity bounds what can be provisioned
	pending     []pending
}

// pending is a delayed claim.
type pending struct {
	*match.Request
	key types.NamespacedName
	// index is the claim's index among the pod's delayed claims.
	index int
	// selected is the claim's selected node; "" if it has none or a void one, see
	// selectedNode.
	selected string
}

// Pod is the pod that the demand was compiled from.
func (d *Demand) Pod() *v1.Pod { return d.pod }

// HasUnboundClaims reports whether any claim of the pod still has to be bound.
func (d *Demand) HasUnboundClaims() bool { return d.delayed > 0 }

// Demand compiles the pod's claims. A refusal means that no node fits
// until one of the pod's claims or classes changes; an error that a claim is invalid.
func (c *Cache) Demand(pod *v1.Pod) (*Demand, *claims.Refusal, error) {
	c.backlog.catchUp(c.mu.RLocker())
	c.expireDue()
	set, refusal := claims.Classify(pod, c)
	if refusal != nil {
		return nil, refusal, nil
	}
	d := &Demand{pod: pod, bound: set.Bound, delayed: len(set.Delayed), rejected: &atomic.Bool{}}
	for i, delayed := range set.Delayed {
		request, err := c.request(delayed.Claim)
		if err != nil {
			return nil, nil, err
		}
		g := d.groupOf(delayed.Class)
		g.pending = append(g.pending, pending{
			Request: request, key: keyOf(delayed.Claim), index: i,
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
		c.ensureVolume(claim.Spec.VolumeName)
	}
	return d, nil, nil
}

func (d *Demand) groupOf(object *storagev1.StorageClass) *group {
	for i := range d.groups {
		if d.groups[i].class.name == object.Name {
			return &d.groups[i]
		}
	}
	// Replaced by the shared entry in prepare.
	d.groups = append(d.groups, group{class: &class{name: object.Name, object: object}})
	return &d.groups[len(d.groups)-1]
}

// compiled caches the requests of claims with a selector, whose size users choose: each
// event compiles the claims of all waiting pods under the scheduling queue's lock. Safe
// for concurrent use.
type compiled struct {
	mu      sync.Mutex
	byClaim map[types.NamespacedName]compiledClaim // of claims in the informer's store
}

// compiledClaim is the result of compiling one state of a claim.
type compiledClaim struct {
	claim   *v1.PersistentVolumeClaim
	request *match.Request
	err     error
}

// of reports whether it is the result for the claim's current state.
func (k compiledClaim) of(claim *v1.PersistentVolumeClaim) bool {
	return k.claim == claim ||
		k.claim != nil && k.claim.UID == claim.UID && k.claim.ResourceVersion == claim.ResourceVersion
}

// request compiles a claim, once for each of its states.
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

// drop removes a deleted claim.
func (k *compiled) drop(key types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byClaim, key)
}

// prepare sets the fields of the group that depend on its class.
func (c *Cache) prepare(g *group) error {
	object := g.class.object
	requests := make([]*match.Request, len(g.pending))
	for i := range g.pending {
		requests[i] = g.pending[i].Request
	}
	if g.class = c.syncClass(object, requests); g.class == nil {
		return fmt.Errorf("storageclass %q was deleted or replaced while the pod was being scheduled", object.Name)
	}
	if g.provisions = provisions(object); g.provisions {
		g.provisioner, g.tracked = provisionerAnnotation(object), c.tracksCapacity(object)
	}
	return nil
}

// ensureVolume observes a volume that a claim names if the cache has not observed it yet.
func (c *Cache) ensureVolume(name string) {
	c.mu.RLock()
	known := c.volume[name] != nil
	c.mu.RUnlock()
	if !known {
		c.ObserveVolume(name)
	}
}

// selectedNode is the node that the claim's selected-node annotation names. Users write
// that annotation too. It is void if nothing provisions the class or the informer
// lacks the node; the binder gets the node from the API server before it overwrites
// the annotation.
func (c *Cache) selectedNode(of claims.Delayed) string {
	if node := claims.SelectedNode(of.Claim); node != "" && provisions(of.Class) && c.NodeExists(node) {
		return node
	}
	return ""
}

// Selected calls yield with each existing node that a claim of the pod has selected.
func (d *Demand) Selected(yield func(node string) bool) {
	for i := range d.groups {
		for j := range d.groups[i].pending {
			if node := d.groups[i].pending[j].selected; node != "" && !yield(node) {
				return
			}
		}
	}
}

// requestsClass reports whether a delayed claim of the pod is of the class.
func (d *Demand) requestsClass(class string) bool {
	return slices.ContainsFunc(d.groups, func(g group) bool { return g.class.name == class })
}

// ProvisionedBy reports whether a delayed claim of the pod is of a class that the
// provisioner serves.
func (d *Demand) ProvisionedBy(provisioner string) bool {
	return slices.ContainsFunc(d.groups, func(g group) bool { return g.provisions && g.provisioner == provisioner })
}

// Tracked calls yield with each class whose storage capacity bounds what is provisioned
// for the pod, and the bytes that the pod's claims without a selected node request of
// it.
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

// AnyTracked reports whether storage capacity bounds what is provisioned for the pod.
func (d *Demand) AnyTracked() bool {
	for range d.Tracked {
		return true
	}
	return false
}

// CapacityPool identifies the storage capacity of a class in a segment.
type CapacityPool struct{ pool *capacityPool }

// CapacityPools adds to pools those that would provide the claims without a selected
// node on the node, with the bytes that the claims request.
func (c *Cache) CapacityPools(d *Demand, node *v1.Node, pools map[CapacityPool]int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	segments := c.locationOf(node).segments
	for class, bytes := range d.Tracked {
		for _, segment := range segments {
			if r := segment.Data.capacity[class]; r != nil && r.newest != nil {
				pools[CapacityPool{r}] = bytes
			}
		}
	}
}

// AddPendingUsage makes the demand account for bytes that other pods may take of capacity
// pools. Call it before the demand is shared; bytes must not change afterwards.
func (d *Demand) AddPendingUsage(bytes map[CapacityPool]int64) {
	if len(d.pendingUsage) > 0 { // withheld
		bytes = maps.Clone(bytes)
		for pool, more := range d.pendingUsage {
			bytes[pool] = saturate(bytes[pool], more)
		}
	}
	d.pendingUsage = bytes
}

// Clone returns a demand whose simulated evictions can be changed without changing d's.
func (d *Demand) Clone() *Demand {
	clone := *d
	clone.evictions = maps.Clone(d.evictions)
	return &clone
}

// Class returns the storage class, nil for none.
func (c *Cache) Class(name string) *storagev1.StorageClass {
	class, err := c.classes.Get(name)
	if err != nil {
		return nil
	}
	return class
}
