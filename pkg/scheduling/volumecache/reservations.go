// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"container/list"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"stowage.dev/kubecompat"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// hold is the reservation of one claim: an existing volume, or a node to
// provision on with the bytes that the volume takes there. Pods that use the same claim
// share it.
//
// A hold for provisioning outlives its pods while the claim has the selected node,
// because a provisioner may be at work. Its bytes are released at the first update of the
// capacity object after the volume appeared, or reportTime after that; without a volume
// after provisionTime. It ends when they are released and the claim is bound, or when the
// claim is deleted or no longer selects the node: until then no event of the claim may
// hold the bytes again.
type hold struct {
	claim  types.NamespacedName
	uid    types.UID
	object *v1.PersistentVolumeClaim // as reserved

	volume *volume // existing; nil: provision, or contradicted since
	node   string  // to provision on; "": an existing volume

	bytes int64
	pool  *capacityPool // that bytes are held of; nil: none
	// reportedAtStart is the pool's reported bytes plus pool.counted when the hold began:
	// a decrease that ended other holds since does not count for this one. -1: unknown.
	reportedAtStart int64
	began           uint64 // sequence number of the Cache
	appeared        uint64 // sequence number at which the provisioned volume appeared; zero: not yet
	// since is when the bytes were held, or when the volume appeared. queue and element are
	// the position in reservations.provisioning or unreported; element is nil in neither.
	since   time.Time
	queue   *list.List
	element *list.Element
	overdue bool // the bytes were released because the volume did not appear in time

	group string // the pod group of the first pod

	pods map[types.UID]struct{} // its owners
}

// owner is a pod that reserves, or a claim that is bound without one.
type owner struct {
	uid   types.UID
	group string // the pod's group
}

// reported reports whether the pool's bytes have decreased by those of the hold since it
// began: the driver counted the volume in before the cache observed the volume.
func (h *hold) reported() bool {
	return h.pool != nil && h.pool.limited() && h.reportedAtStart >= 0 &&
		saturate(h.pool.newest.total, h.bytes) <= h.reportedAtStart-h.pool.counted
}

// reservations are the holds, by claim and by pod, and their expiry. The lock of the
// Cache guards them.
type reservations struct {
	clock    clock.PassiveClock
	index    *index
	claims   *newestClaims
	free     *freePools
	releases *releases

	// sequence numbers the volumes, capacity objects and holds in the order in which they
	// were observed or began. Those of the initial lists have the same number: in which order
	// the informers deliver these does not show whether a report includes a volume.
	sequence uint64
	listing  bool // the initial lists are being observed
	byClaim  map[types.NamespacedName]*hold
	byPod    map[types.UID][]*hold
	// unreported are the holds of bytes of volumes that exist and no report includes,
	// provisioning those of volumes that do not exist yet, the oldest first.
	unreported, provisioning list.List
}

func (r *reservations) nextSequence() uint64 {
	if r.listing {
		return r.sequence
	}
	r.sequence++
	return r.sequence
}

// removeFrom removes elements of a key's list, and the key with the last one. The list as it was
// read before does not change.
func removeFrom[K comparable, V any](lists map[K][]V, key K, is func(V) bool) {
	if rest := slices.DeleteFunc(slices.Clone(lists[key]), is); len(rest) > 0 {
		lists[key] = rest
	} else {
		delete(lists, key)
	}
}

// end removes the hold and releases its volume and bytes.
func (r *reservations) end(h *hold) {
	for pod := range h.pods {
		removeFrom(r.byPod, pod, func(o *hold) bool { return o == h })
	}
	delete(r.byClaim, h.claim)
	if p := h.pool; p != nil {
		r.releases.note(h, p.class, p.segment)
		r.releaseBytes(h)
	}
	unused := h.node != "" && h.appeared == 0
	if v := h.volume; v != nil {
		h.volume, v.hold = nil, nil
		r.free.offer(v)
		if v.pool != nil {
			r.releases.note(h, v.Class, v.segment)
			unused = true
		}
	}
	if unused {
		r.releases.note(h, "", nil)
	}
}

// release removes the pod from its holds and ends those that are no longer needed.
func (r *reservations) release(pod types.UID) {
	for _, h := range r.byPod[pod] {
		delete(h.pods, pod)
		r.endUnused(h)
	}
	delete(r.byPod, pod)
}

// endUnused ends the hold if no pod needs it and its claim does not either.
func (r *reservations) endUnused(h *hold) {
	if len(h.pods) == 0 && !r.inProgress(h) {
		r.end(h)
	}
}

// inProgress reports whether a provisioner may be at work on what is held, or its volume
// is not reported or not bound yet.
func (r *reservations) inProgress(h *hold) bool {
	if h.node == "" {
		return false
	}
	if h.appeared > 0 && h.pool != nil {
		return true
	}
	claim := r.claims.get(h.claim)
	return claim != nil && claim.UID == h.uid && claims.SelectedNode(claim) == h.node &&
		(h.appeared == 0 || claim.Spec.VolumeName == "")
}

// keep moves the reservation of a volume to its newest state, or ends it if that state
// contradicts it: what is observed wins.
func (r *reservations) keep(v *volume) {
	h := v.hold
	if h == nil {
		return
	}
	if v.Free() || (v.claim == h.claim && match.RefersTo(v.PV.Spec.ClaimRef, h.object) && v.PV.DeletionTimestamp == nil) {
		h.volume = v
		return
	}
	h.volume, v.hold = nil, nil
}

// volumeAppeared notes that a volume names a claim: the driver's reports may now include
// what was held for its provisioning.
func (r *reservations) volumeAppeared(v *volume) {
	h := r.byClaim[v.claim]
	if h == nil || h.node == "" || h.appeared > 0 || !match.RefersTo(v.PV.Spec.ClaimRef, h.object) {
		return
	}
	h.appeared, h.overdue = v.appeared, false
	if h.pool != nil {
		r.enqueue(h, &r.unreported)
	}
	if h.reported() {
		r.releases.note(h, h.pool.class, h.pool.segment)
		r.countIn(h)
	} else {
		r.endUnused(h)
	}
}

// capacityReported ends the holds of volumes that the object includes: it was observed
// after they had appeared, or says so.
func (r *reservations) capacityReported(a *capacity) {
	if a != a.pool.newest {
		return
	}
	for h := range a.pool.holds {
		if h.appeared > 0 && h.appeared < a.sequence || a.counted.Has(h.uid) {
			r.countIn(h)
		}
	}
}

// nodeDeleted ends holds for provisioning on the node: nothing will be provisioned there.
func (r *reservations) nodeDeleted(name string) {
	for _, h := range r.byClaim {
		if h.node == name && len(h.pods) == 0 {
			r.end(h)
		}
	}
}

// Reserve chooses volumes and capacity for the pod on the node, makes them unavailable
// to other pods, and returns the writes that bind them. A reason means that the claims
// do not fit the node; nothing is reserved then. Reserve first releases what the pod
// had reserved before, so it may be repeated.
func (c *Cache) Reserve(d *Demand, node string) (*plan.Plan, match.Reason) {
	s := c.scratch.Get().(*solution)
	defer c.putScratch(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved.expire()
	c.reserved.release(d.pod.UID)
	object, err := c.nodes.Get(node)
	if err != nil {
		return nil, match.Reason{Code: match.NodeConflict}
	}
	if c.index.NodeByObject(object) == nil {
		c.setNode(object)
	}
	at := c.locationOf(object)
	if reason := c.solve(s, d, at, exact); reason.Code != 0 {
		return nil, reason
	}
	delete(c.nominated, d.pod.UID)
	c.rejections.drop(d.pod.UID)
	p := &plan.Plan{
		Pod:    types.NamespacedName{Namespace: d.pod.Namespace, Name: d.pod.Name},
		PodUID: d.pod.UID,
		Node:   node,
	}
	c.commit(s, owner{d.pod.UID, kubecompat.PodGroup(d.pod)}, p)
	return p, match.Reason{}
}

// commit reserves what the solution chose for the owner, and adds it to the plan.
func (c *Cache) commit(s *solution, by owner, p *plan.Plan) {
	for _, b := range s.bindings {
		v := c.volume[b.volume.Name]
		p.Bindings = append(p.Bindings, plan.Binding{Claim: b.of.Claim, Volume: v.PV})
		c.reserved.reserveVolume(b.of, by, v)
	}
	for _, made := range s.provisions {
		p.Provisions = append(p.Provisions, plan.Provision{Claim: made.of.Claim, Provisioner: made.group.provisioner})
		var existing *hold
		if made.held {
			existing = c.reserved.byClaim[made.of.key]
		}
		c.reserved.reserveNode(made, by, p.Node, existing)
	}
}

// reserveVolume reserves an existing volume for the claim.
func (r *reservations) reserveVolume(of *pending, by owner, v *volume) {
	h := r.share(of, by, v.hold)
	h.volume, v.hold = v, h
	r.free.withdraw(v)
}

// reserveNode reserves the provisioning of a volume on the node, with its bytes in the pool;
// that is nil for classes without capacity objects, and for claims that theirs counts.
// existing is the hold that the claim already has, or nil.
func (r *reservations) reserveNode(made provision, by owner, node string, existing *hold) {
	h := r.share(made.of, by, existing)
	h.node = node
	if made.pool != nil {
		h.bytes = made.of.Bytes
		made.pool.addHold(h)
		r.enqueue(h, &r.provisioning)
	}
}

// share adds an owner to the claim's hold: the existing one, or else a new one that replaces
// an invalid one.
func (r *reservations) share(of *pending, by owner, existing *hold) *hold {
	h := existing
	if h == nil {
		if old := r.byClaim[of.key]; old != nil {
			r.end(old)
		}
		h = &hold{
			claim: of.key, uid: of.Claim.UID, object: of.Claim,
			began: r.nextSequence(), group: by.group, pods: map[types.UID]struct{}{},
		}
		r.byClaim[of.key] = h
	}
	h.pods[by.uid] = struct{}{}
	r.byPod[by.uid] = append(r.byPod[by.uid], h)
	return h
}

// Reserved returns what the pod has reserved: by claim the existing volume, or "" for one to
// provision. For simulations, which bind nothing.
func (c *Cache) Reserved(pod types.UID) map[types.NamespacedName]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	reserved := map[types.NamespacedName]string{}
	for _, h := range c.reserved.byPod[pod] {
		reserved[h.claim] = ""
		if h.volume != nil {
			reserved[h.claim] = h.volume.Name
		}
	}
	return reserved
}

// Release releases what the pod has reserved, or what Assign has for the claim; unknown ones
// are fine.
func (c *Cache) Release(owner types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved.release(owner)
}
