// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"container/list"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// hold is the reservation of one claim: an existing volume, or a node to
// provision on with the bytes it takes there. Pods that use the same claim
// share it.
//
// A hold for provisioning outlives its pods while the claim's selected-node
// stands, because a provisioner may be at work; it ends when the claim is
// deleted or no longer selects the node, at the first update of the capacity
// object after the volume appeared, or settleTime after that. Its bytes are held for
// provisionTime without a volume.
type hold struct {
	claim  types.NamespacedName
	uid    types.UID
	object *v1.PersistentVolumeClaim // as reserved

	volume *volume // existing; nil: provision, or contradicted meanwhile
	node   string  // to provision on; "": an existing volume

	bytes int64
	room  *room // that bytes are held of; nil: none
	// figure is the room's bytes, as reported when the hold began, and room.counted of
	// then: what the report has fallen by for other holds since is not for this one.
	// -1: not known.
	figure int64
	began  uint64 // the cache's turn
	turn   uint64 // of when the provisioned volume appeared; zero: not yet
	// since is when the bytes were held, or when the volume appeared, as the hold is
	// in the ledger's provisioning or settling. place is nil in neither.
	since   time.Time
	queue   *list.List
	place   *list.Element
	overdue bool // the bytes are held no more: the volume has not appeared in time

	group string // the pod group of the first pod

	pods map[types.UID]struct{}
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
	case h.volume.Lost != match.Fits:
		return h.volume.lostTo(p.Claim)
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
	defer c.putScratch(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
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
	delete(c.nominated, d.pod.UID)
	c.ledger.dropRefusal(d.pod.UID)
	for _, b := range s.bindings {
		v := c.volume[b.volume.Name]
		p.Bindings = append(p.Bindings, plan.Binding{Claim: b.of.Claim, Volume: v.PV})
		h := c.holdFor(b.of, d.pod, v.hold)
		h.volume, v.hold = v, h
		c.withdraw(v)
	}
	for _, made := range s.provisions {
		p.Provisions = append(p.Provisions, plan.Provision{Claim: made.of.Claim, Provisioner: made.group.provisioner})
		var shared *hold
		if made.held {
			shared = c.holds[made.of.key]
		}
		h := c.holdFor(made.of, d.pod, shared)
		h.node = node
		if made.room != nil {
			h.bytes = made.of.Bytes
			made.room.hold(h)
			c.queue(h, &c.ledger.provisioning)
		}
	}
	return p, match.Reason{}
}

// holdFor makes the pod an owner of the claim's hold: the one it shares with
// other pods, or else a new one in the place of what is left of an old one.
func (c *Cache) holdFor(of *pending, pod *v1.Pod, shared *hold) *hold {
	h := shared
	if h == nil {
		if old := c.holds[of.key]; old != nil {
			c.endHold(old)
		}
		h = &hold{
			claim: of.key, uid: of.Claim.UID, object: of.Claim,
			began: c.nextTurn(), group: groupOf(pod), pods: map[types.UID]struct{}{},
		}
		c.holds[of.key] = h
	}
	h.pods[pod.UID] = struct{}{}
	c.byPod[pod.UID] = append(c.byPod[pod.UID], h)
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
	if h.turn > 0 {
		return h.room != nil
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
	if r := h.room; r != nil {
		c.noteRelease(h, r.class, r.segment)
		c.vacate(h)
	}
	unused := h.node != "" && h.turn == 0
	if v := h.volume; v != nil {
		h.volume, v.hold = nil, nil
		c.offer(v)
		if v.pool != nil {
			c.noteRelease(h, v.Class, v.segment)
			unused = true
		}
	}
	if unused {
		c.noteRelease(h, "", nil)
	}
}

// claimServed notes that a volume names a claim: what was held for
// provisioning it may now show in the driver's own figures.
func (c *Cache) claimServed(v *volume) {
	h := c.holds[v.claim]
	if h == nil || h.node == "" || h.turn > 0 || !match.RefersTo(v.PV.Spec.ClaimRef, h.object) {
		return
	}
	c.noteAppeared(h)
	if h.reported() {
		c.noteRelease(h, h.room.class, h.room.segment)
		c.countIn(h)
	} else if h.room == nil && len(h.pods) == 0 {
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
		if _, known := c.ephemeral[key]; !known {
			c.ephemeral[key] = false
		}
		c.followReturn(c.volume[claim.Spec.VolumeName], time.Time{})
	}
	c.followClaim(key)
	c.watch.notify(watchKey{kind: watchClaim, namespace: claim.Namespace, name: claim.Name})
}

// ObserveClaim brings what is held up to what the informer's store has for the
// claim: a node may have been selected for it, or is no more.
func (c *Cache) ObserveClaim(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	c.mu.RLock()
	current := c.hasClaim(key)
	c.mu.RUnlock()
	if current {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followClaim(key)
}

// hasClaim tells whether what is held agrees with what the informer's store has
// for the claim.
func (c *Cache) hasClaim(key types.NamespacedName) bool {
	h := c.holds[key]
	if h != nil && len(h.pods) > 0 {
		return true // their releases see to it
	}
	claim, err := c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if h == nil {
		return err != nil || !sent(claim)
	}
	return err == nil && h.uid == claim.UID && c.inProgress(h)
}

// followClaim ends or begins what is held for a claim without a pod that has
// reserved for it, as the informer's store has the claim.
func (c *Cache) followClaim(key types.NamespacedName) {
	claim, err := c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if h := c.holds[key]; h != nil && len(h.pods) == 0 && (err != nil || h.uid != claim.UID || !c.inProgress(h)) {
		c.endHold(h)
	}
	if err == nil && sent(claim) && c.holds[key] == nil {
		c.holdSelected(claim)
	}
}

// sent tells whether a provisioner may be at work for the claim on a node.
func sent(claim *v1.PersistentVolumeClaim) bool {
	return claims.SelectedNode(claim) != "" && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// holdSelected holds capacity for a claim that another scheduler, or this one
// before it was restarted, has sent to a node.
func (c *Cache) holdSelected(claim *v1.PersistentVolumeClaim) {
	node := claims.SelectedNode(claim)
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
		began: c.nextTurn(), pods: map[types.UID]struct{}{},
	}
	s := c.scratch.Get().(*solution)
	s.openRooms(spot{node, entry.Segments}, class.Name, 0, nil)
	found := s.allot(h.bytes)
	c.putScratch(s)
	if found == nil {
		return // nothing tells where it will go
	}
	found.hold(h)
	c.holds[h.claim] = h
	c.queue(h, &c.ledger.provisioning)
}

// holdAllSelected does that for all claims that exist: at the start, a claim may
// be seen before what tells where its bytes go.
func (c *Cache) holdAllSelected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	existing, _ := c.claims.List(labels.Everything()) // listers of informers do not fail
	for _, claim := range existing {
		if sent(claim) && c.holds[keyOf(claim)] == nil {
			c.holdSelected(claim)
		}
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
		c.compiled.drop(key)
	}
	c.followReturn(c.volume[claim.Spec.VolumeName], time.Time{})
	c.followClaim(key)
	c.watch.notify(watchKey{kind: watchClaim, namespace: claim.Namespace, name: claim.Name})
}
