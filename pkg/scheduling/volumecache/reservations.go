// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"container/list"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
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

	pods map[types.UID]struct{}
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
	// were observed or began.
	sequence uint64
	byClaim  map[types.NamespacedName]*hold
	byPod    map[types.UID][]*hold
	// unreported are the holds of bytes of volumes that exist and no report includes,
	// provisioning those of volumes that do not exist yet, the oldest first.
	unreported, provisioning list.List
}

func (r *reservations) nextSequence() uint64 {
	r.sequence++
	return r.sequence
}

// end removes the hold and releases its volume and bytes.
func (r *reservations) end(h *hold) {
	for pod := range h.pods {
		if rest := slices.DeleteFunc(slices.Clone(r.byPod[pod]), func(o *hold) bool { return o == h }); len(rest) > 0 {
			r.byPod[pod] = rest
		} else {
			delete(r.byPod, pod)
		}
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
// after they had appeared.
func (r *reservations) capacityReported(a *capacity) {
	if a != a.pool.newest {
		return
	}
	for h := range a.pool.holds {
		if h.appeared > 0 && h.appeared < a.sequence {
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

// capacityPool is the storage capacity of one class in one segment. It stays one pool
// if several CSIStorageCapacity objects describe it, for example while a driver replaces
// one by another: the object written last counts. A capacityPool exists while it has
// objects or holds.
type capacityPool struct {
	class   string
	segment *segment
	objects []*capacity
	newest  *capacity // of objects; nil: none
	holds   map[*hold]struct{}
	held    int64 // bytes of holds; math.MaxInt64: that many or more
	// counted is the bytes of all holds that ended because the report includes them; see
	// hold.reportedAtStart.
	counted int64
}

// addObject adds a CSIStorageCapacity object that describes the pool.
func (p *capacityPool) addObject(a *capacity) {
	p.objects = append(slices.Clip(p.objects), a)
	if p.newest == nil || newer(a.object.ResourceVersion, p.newest.object.ResourceVersion) {
		p.newest = a
	}
}

func (p *capacityPool) removeObject(a *capacity) {
	objects := slices.DeleteFunc(slices.Clone(p.objects), func(o *capacity) bool { return o == a })
	p.objects, p.newest = nil, nil
	for _, o := range objects {
		p.addObject(o)
	}
}

func (p *capacityPool) addHold(h *hold) {
	h.pool, h.reportedAtStart = p, -1
	if p.limited() {
		h.reportedAtStart = saturate(p.newest.total, p.counted)
	}
	p.holds[h] = struct{}{}
	p.held = saturate(p.held, h.bytes)
}

// limited reports whether the newest object states a capacity.
func (p *capacityPool) limited() bool { return p.newest != nil && p.newest.total < math.MaxInt64 }

func (p *capacityPool) removeHold(h *hold) {
	h.pool = nil
	delete(p.holds, h)
	if p.held < math.MaxInt64 {
		p.held -= h.bytes
	} else {
		p.held = p.sum()
	}
}

// sum computes held from the holds.
func (p *capacityPool) sum() int64 {
	var sum int64
	for h := range p.holds {
		sum = saturate(sum, h.bytes)
	}
	return sum
}

// remaining is the bytes not held, never negative. The pool must have an object.
func (p *capacityPool) remaining() int64 {
	if p.newest.total == math.MaxInt64 {
		return math.MaxInt64
	}
	return p.newest.total - min(p.newest.total, p.held)
}

// fits reports whether the pool, nil for none, has enough bytes left for one volume.
func (p *capacityPool) fits(bytes int64) bool {
	return p != nil && p.newest != nil && bytes <= p.newest.largest && bytes <= p.remaining()
}

// capacityPoolOf returns the pool of the class in the segment and creates it if
// necessary. It takes over the caller's reference to the segment.
func (c *Cache) capacityPoolOf(class string, of *segment) *capacityPool {
	if p := of.Data.capacity[class]; p != nil {
		c.index.Release(of)
		return p
	}
	p := &capacityPool{class: class, segment: of, holds: map[*hold]struct{}{}}
	if of.Data.capacity == nil {
		of.Data.capacity = map[string]*capacityPool{}
	}
	of.Data.capacity[class] = p
	return p
}

// dropIfUnused removes a pool that has neither objects nor holds.
func (p *capacityPool) dropIfUnused(x *index) {
	if len(p.objects) == 0 && len(p.holds) == 0 && p.segment.Data.capacity[p.class] == p {
		delete(p.segment.Data.capacity, p.class)
		x.Release(p.segment)
	}
}

// saturate adds byte counts, none of them negative, without wrapping around.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
