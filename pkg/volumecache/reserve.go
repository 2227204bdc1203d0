// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/volume/claims"
	"stowage.dev/stowage/pkg/volume/match"
	"stowage.dev/stowage/pkg/volume/plan"
)

// hold is the reservation of one claim: an existing volume, or a node to
// provision on with the bytes it takes there. Pods that use the same claim
// share it.
//
// A hold for provisioning outlives its pods while the claim's selected-node
// stands, because a provisioner may be at work; it ends when the claim is
// deleted or no longer selects the node, at the first update of the capacity
// object after the volume appeared, or settleTime after that.
type hold struct {
	claim  types.NamespacedName
	uid    types.UID
	object *v1.PersistentVolumeClaim // as reserved

	volume *volume // existing; nil: provision, or contradicted meanwhile
	node   string  // to provision on; "": an existing volume

	bytes    int64
	capacity *capacity // that bytes are held of; nil: none
	appeared time.Time // of the provisioned volume; zero: not yet

	pods map[types.UID]struct{}
}

// over tells whether the bytes need not be held any more.
func (h *hold) over(now time.Time) bool {
	return !h.appeared.IsZero() && now.Sub(h.appeared) > settleTime
}

// stands tells whether the reservation still binds the claim: not once its
// volume was contradicted, nor when its node is gone for good.
func (h *hold) stands(p *pending) bool {
	if h.node == "" {
		return h.volume != nil
	}
	return len(h.pods) > 0 || p.selected != ""
}

// settles answers for a claim whose reservation stands.
func (h *hold) settles(c *Cache, s *solution, g *group, p *pending, at spot) match.Reason {
	switch {
	case h.node == at.node:
		s.provisions = append(s.provisions, provision{of: p, group: g, held: true})
	case h.node != "":
		return match.Reason{Code: match.NodeNotSelected, Claim: p.Claim.Name}
	case at.in(c.segmentOn(h.volume, at.node)):
		s.bindings = append(s.bindings, binding{p, h.volume.Volume, h.volume.Bytes})
	default:
		return match.Reason{Code: match.ReservedVolumeMismatch, Claim: p.Claim.Name, Volume: h.volume.Name}
	}
	return match.Reason{}
}

// Reserve chooses volumes and capacity for the pod on the node, takes them out
// of what others see, and returns what has to be written. A reason means that
// the claims do not fit the node (any more); nothing is reserved then. What
// the pod had reserved before is given back first, so Reserve may be repeated.
func (c *Cache) Reserve(d *Demand, node string) (*plan.Plan, match.Reason) {
	s := c.scratch.Get().(*solution)
	defer func() {
		s.reset()
		c.scratch.Put(s)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(d.pod.UID)
	object, err := c.nodes.Get(node)
	if err != nil {
		return nil, match.Reason{Code: match.NodeConflict}
	}
	if c.index.NodeOf(object) == nil {
		c.setNode(object)
	}
	if reason := c.solve(s, d, c.spotOf(object), exact); reason.Code != 0 {
		return nil, reason
	}
	p := &plan.Plan{
		Pod:    types.NamespacedName{Namespace: d.pod.Namespace, Name: d.pod.Name},
		PodUID: d.pod.UID,
		Node:   node,
	}
	delete(c.freed, d.pod.UID)
	for _, b := range s.bindings {
		v := c.volume[b.volume.Name]
		p.Bindings = append(p.Bindings, plan.Binding{Claim: b.of.Claim, Volume: v.PV})
		h := c.holdFor(b.of, d.pod.UID, v.hold)
		h.volume, v.hold = v, h
		c.withdraw(v)
	}
	for _, made := range s.provisions {
		p.Provisions = append(p.Provisions, plan.Provision{Claim: made.of.Claim, Provisioner: made.group.provisioner})
		var shared *hold
		if made.held {
			shared = c.holds[made.of.key]
		}
		h := c.holdFor(made.of, d.pod.UID, shared)
		h.node = node
		if made.capacity != nil {
			h.bytes, h.capacity = made.of.Bytes, made.capacity
			made.capacity.holds[h] = struct{}{}
		}
	}
	return p, match.Reason{}
}

// holdFor makes the pod an owner of the claim's hold: the one it shares with
// other pods, or else a new one in the place of what is left of an old one.
func (c *Cache) holdFor(of *pending, pod types.UID, shared *hold) *hold {
	h := shared
	if h == nil {
		if old := c.holds[of.key]; old != nil {
			c.endHold(old)
		}
		h = &hold{claim: of.key, uid: of.Claim.UID, object: of.Claim, pods: map[types.UID]struct{}{}}
		c.holds[of.key] = h
	}
	h.pods[pod] = struct{}{}
	c.byPod[pod] = append(c.byPod[pod], h)
	return h
}

// Release gives back what the pod has reserved; unknown pods are fine.
func (c *Cache) Release(pod types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(pod)
}

// release takes the pod off its holds and ends those that nobody needs.
func (c *Cache) release(pod types.UID) {
	for _, h := range c.byPod[pod] {
		delete(h.pods, pod)
		if len(h.pods) == 0 && !c.inProgress(h) {
			c.endHold(h)
		}
	}
	delete(c.byPod, pod)
}

// inProgress tells whether a provisioner may be at work on what is held.
func (c *Cache) inProgress(h *hold) bool {
	if h.node == "" {
		return false
	}
	if !h.appeared.IsZero() {
		return h.capacity != nil
	}
	claim := c.newestClaim(h.claim)
	return claim != nil && claim.UID == h.uid && claims.SelectedNode(claim) == h.node
}

// newestClaim is Claim for callers that hold the lock.
func (c *Cache) newestClaim(key types.NamespacedName) *v1.PersistentVolumeClaim {
	claim, err := c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if err != nil {
		return nil
	}
	if written := c.written[key]; written != nil && written.UID == claim.UID && newer(written.ResourceVersion, claim.ResourceVersion) {
		return written
	}
	return claim
}

// endHold gives back what is held.
func (c *Cache) endHold(h *hold) {
	for pod := range h.pods {
		if rest := slices.DeleteFunc(slices.Clone(c.byPod[pod]), func(o *hold) bool { return o == h }); len(rest) > 0 {
			c.byPod[pod] = rest
		} else {
			delete(c.byPod, pod)
		}
	}
	delete(c.holds, h.claim)
	if h.capacity != nil {
		delete(h.capacity.holds, h)
		h.capacity = nil
	}
	if v := h.volume; v != nil {
		h.volume, v.hold = nil, nil
		c.offer(v)
	}
}

// claimServed notes that a volume names a claim: what was held for
// provisioning it may now show in the driver's own figures.
func (c *Cache) claimServed(v *volume) {
	h := c.holds[v.claim]
	if h == nil || h.node == "" || !h.appeared.IsZero() || !match.Names(v.PV.Spec.ClaimRef, h.object) {
		return
	}
	h.appeared = c.clock.Now()
	if h.capacity == nil && len(h.pods) == 0 {
		c.endHold(h)
	}
}

// ApplyClaim takes in a claim as returned to a write, until the informer shows
// that state or a newer one.
func (c *Cache) ApplyClaim(claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(claim)
	if newest := c.newestClaim(key); newest != nil && newest.UID == claim.UID && newer(claim.ResourceVersion, newest.ResourceVersion) {
		c.written[key] = claim
	}
}

// claimSeen takes in a claim that the informer shows.
func (c *Cache) claimSeen(claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(claim)
	if written := c.written[key]; written != nil && (written.UID != claim.UID || !newer(written.ResourceVersion, claim.ResourceVersion)) {
		delete(c.written, key)
	}
	if ownedByPod(claim) {
		c.ephemeral[key] = struct{}{}
	}
	if h := c.holds[key]; h != nil && len(h.pods) == 0 && (h.uid != claim.UID || !c.inProgress(h)) {
		c.endHold(h)
	}
	c.holdSelected(claim)
	c.watch.notify(watchKey{kind: watchClaim, namespace: claim.Namespace, name: claim.Name})
}

// ObserveClaim brings what is held up to what the informer's store has for the
// claim: a node may have been selected for it.
func (c *Cache) ObserveClaim(namespace, name string) {
	claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdSelected(claim)
}

// holdSelected holds capacity for a claim that another scheduler, or this one
// before it was restarted, has sent to a node.
func (c *Cache) holdSelected(claim *v1.PersistentVolumeClaim) {
	node := claims.SelectedNode(claim)
	if node == "" || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || c.holds[keyOf(claim)] != nil {
		return
	}
	entry, class := c.index.Node(node), c.Class(match.ClaimClass(claim))
	if entry == nil || class == nil || !provisions(class) {
		return
	}
	driver, err := c.drivers.Get(class.Provisioner)
	if err != nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return
	}
	request, err := match.NewRequest(claim)
	if err != nil || request.Bytes == 0 {
		return
	}
	h := &hold{
		claim: keyOf(claim), uid: claim.UID, object: claim, node: node, bytes: request.Bytes,
		pods: map[types.UID]struct{}{},
	}
	s := c.scratch.Get().(*solution)
	h.capacity = s.allot(spot{node, entry.Segments}, class.Name, h.bytes, 0, c.clock.Now())
	s.reset()
	c.scratch.Put(s)
	if h.capacity == nil {
		return // nothing tells where it will go
	}
	h.capacity.holds[h] = struct{}{}
	c.holds[h.claim] = h
}

// holdAllSelected does that for all claims that exist: at the start, a claim may
// be seen before what tells where its bytes go.
func (c *Cache) holdAllSelected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	existing, _ := c.claims.List(labels.Everything()) // listers of informers do not fail
	for _, claim := range existing {
		c.holdSelected(claim)
	}
}

// claimGone takes in that a claim was deleted.
func (c *Cache) claimGone(claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(claim)
	if written := c.written[key]; written != nil && written.UID == claim.UID {
		delete(c.written, key)
	}
	if _, err := c.claims.PersistentVolumeClaims(claim.Namespace).Get(claim.Name); err != nil {
		delete(c.ephemeral, key)
	}
	if h := c.holds[key]; h != nil && h.uid == claim.UID && len(h.pods) == 0 {
		c.endHold(h)
	}
	c.watch.notify(watchKey{kind: watchClaim, namespace: claim.Namespace, name: claim.Name})
}
