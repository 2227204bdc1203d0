// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// newestClaims are the claims as the informer delivered them or as the API server returned
// them to a write of this process, whichever is newer. The lock of the Cache guards them.
type newestClaims struct {
	claims corelisters.PersistentVolumeClaimLister
	// written are the results of writes that the informer has not shown yet.
	written map[types.NamespacedName]*v1.PersistentVolumeClaim
}

// get returns the newest known state of a claim, nil for none.
func (n *newestClaims) get(key types.NamespacedName) *v1.PersistentVolumeClaim {
	claim, err := n.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if err != nil {
		return nil
	}
	if written := n.written[key]; written != nil && written.UID == claim.UID && newer(written.ResourceVersion, claim.ResourceVersion) {
		return written
	}
	return claim
}

// Claim returns the newest known state of a claim, nil for none.
func (c *Cache) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.newest.get(types.NamespacedName{Namespace: namespace, Name: name})
}

// ApplyClaim records a claim as returned to a write, until the informer shows
// that state or a newer one.
func (c *Cache) ApplyClaim(claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(claim)
	if newest := c.newest.get(key); newest != nil && newest.UID == claim.UID && newer(claim.ResourceVersion, newest.ResourceVersion) {
		c.newest.written[key] = claim
	}
}

func (c *Cache) claimUpdated(claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(claim)
	if written := c.newest.written[key]; written != nil && (written.UID != claim.UID || !newer(written.ResourceVersion, claim.ResourceVersion)) {
		delete(c.newest.written, key)
	}
	if ownedByPod(claim) {
		if _, known := c.ephemeral[key]; !known {
			c.ephemeral[key] = false
		}
		c.trackReclaim(c.volume[claim.Spec.VolumeName], time.Time{})
	}
	c.syncClaim(key)
	c.watch.notify(watchKey{kind: watchClaim, namespace: claim.Namespace, name: claim.Name})
}

// ObserveClaim updates what is held for a claim to the state of the informer's store: a
// node may have been selected for it, or deselected.
func (c *Cache) ObserveClaim(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	c.mu.RLock()
	current := c.claimCurrent(key)
	c.mu.RUnlock()
	if current {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.syncClaim(key)
}

func (c *Cache) claimCurrent(key types.NamespacedName) bool {
	h := c.reserved.byClaim[key]
	if h != nil && len(h.pods) > 0 {
		return true // their releases update it
	}
	claim := c.newest.get(key)
	if h == nil {
		return claim == nil || !awaitsProvisioning(claim)
	}
	return claim != nil && h.uid == claim.UID && c.reserved.inProgress(h)
}

// syncClaim ends or begins the hold of a claim for which no pod has reserved.
func (c *Cache) syncClaim(key types.NamespacedName) {
	claim := c.newest.get(key)
	if h := c.reserved.byClaim[key]; h != nil && len(h.pods) == 0 && (claim == nil || h.uid != claim.UID || !c.reserved.inProgress(h)) {
		c.reserved.end(h)
	}
	if claim != nil && awaitsProvisioning(claim) && c.reserved.byClaim[key] == nil {
		c.holdSelected(claim)
	}
}

// awaitsProvisioning reports whether a provisioner may be at work for the claim on a node.
func awaitsProvisioning(claim *v1.PersistentVolumeClaim) bool {
	return claims.SelectedNode(claim) != "" && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// holdSelected holds capacity for a claim whose selected node another scheduler has
// written, or this one before a restart.
func (c *Cache) holdSelected(claim *v1.PersistentVolumeClaim) {
	node := claims.SelectedNode(claim)
	entry, class := c.index.Node(node), c.Class(match.ClaimClass(claim))
	if entry == nil || !c.tracksCapacity(class) {
		return
	}
	request, err := match.NewRequest(claim)
	if err != nil || request.Bytes == 0 {
		return
	}
	h := &hold{
		claim: keyOf(claim), uid: claim.UID, object: claim, node: node, bytes: request.Bytes,
		began: c.reserved.nextSequence(), pods: map[types.UID]struct{}{},
	}
	s := c.scratch.Get().(*solution)
	s.openCapacity(location{node, entry.Segments}, class.Name, 0, nil)
	found := s.allot(h.bytes)
	c.putScratch(s)
	if found == nil || found.newest.counted.Has(claim.UID) {
		return // unknown where the volume will be, or its bytes are counted
	}
	queue := &c.reserved.provisioning
	// At the start it is not known whether a report includes a volume that exists: the bytes are held
	// until the next report, or reportTime.
	if v := c.volumeFor(claim); v != nil { // observed before the claim
		if found.newest.sequence > v.appeared {
			return // and reported
		}
		h.appeared, queue = v.appeared, &c.reserved.unreported
	}
	found.addHold(h)
	c.reserved.byClaim[h.claim] = h
	c.reserved.enqueue(h, queue)
}

// holdAllSelected ends the initial lists. It calls holdSelected for all existing claims: a
// claim may have been observed before the capacity object of its node.
func (c *Cache) holdAllSelected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved.listing = false
	existing, _ := c.claims.List(labels.Everything()) // informers' listers return no errors
	for _, claim := range existing {
		if awaitsProvisioning(claim) && c.reserved.byClaim[keyOf(claim)] == nil {
			c.holdSelected(claim)
		}
	}
}

func (c *Cache) claimDeleted(claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(claim)
	if written := c.newest.written[key]; written != nil && written.UID == claim.UID {
		delete(c.newest.written, key)
	}
	if _, err := c.claims.PersistentVolumeClaims(claim.Namespace).Get(claim.Name); err != nil {
		delete(c.ephemeral, key)
		c.compiled.drop(key)
	}
	c.trackReclaim(c.volume[claim.Spec.VolumeName], time.Time{})
	c.syncClaim(key)
	c.watch.notify(watchKey{kind: watchClaim, namespace: claim.Namespace, name: claim.Name})
}
