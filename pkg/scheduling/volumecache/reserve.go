// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/kubecompat"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

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
	return c.commit(s, d.pod, node), match.Reason{}
}

// commit reserves what the solution chose for the pod.
func (c *Cache) commit(s *solution, pod *v1.Pod, node string) *plan.Plan {
	p := &plan.Plan{
		Pod:    types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		PodUID: pod.UID,
		Node:   node,
	}
	for _, b := range s.bindings {
		v := c.volume[b.volume.Name]
		p.Bindings = append(p.Bindings, plan.Binding{Claim: b.of.Claim, Volume: v.PV})
		c.reserved.reserveVolume(b.of, pod, v)
	}
	for _, made := range s.provisions {
		p.Provisions = append(p.Provisions, plan.Provision{Claim: made.of.Claim, Provisioner: made.group.provisioner})
		var existing *hold
		if made.held {
			existing = c.reserved.byClaim[made.of.key]
		}
		c.reserved.reserveNode(made.of, pod, node, made.pool, existing)
	}
	return p
}

// reserveVolume reserves an existing volume for the claim.
func (r *reservations) reserveVolume(of *pending, pod *v1.Pod, v *volume) {
	h := r.share(of, pod, v.hold)
	h.volume, v.hold = v, h
	r.free.withdraw(v)
}

// reserveNode reserves the provisioning of a volume for the claim on the node, with its
// bytes in the pool; pool is nil for classes without capacity objects. existing is the
// hold that the claim already has, or nil.
func (r *reservations) reserveNode(of *pending, pod *v1.Pod, node string, pool *capacityPool, existing *hold) {
	h := r.share(of, pod, existing)
	h.node = node
	if pool != nil {
		h.bytes = of.Bytes
		pool.addHold(h)
		r.enqueue(h, &r.provisioning)
	}
}

// share makes the pod an owner of the claim's hold: the existing one, or else a new one
// that replaces an invalid one.
func (r *reservations) share(of *pending, pod *v1.Pod, existing *hold) *hold {
	h := existing
	if h == nil {
		if old := r.byClaim[of.key]; old != nil {
			r.end(old)
		}
		h = &hold{
			claim: of.key, uid: of.Claim.UID, object: of.Claim,
			began: r.nextSequence(), group: kubecompat.PodGroup(pod), pods: map[types.UID]struct{}{},
		}
		r.byClaim[of.key] = h
	}
	h.pods[pod.UID] = struct{}{}
	r.byPod[pod.UID] = append(r.byPod[pod.UID], h)
	return h
}

// Release releases what the pod has reserved; unknown pods are fine.
func (c *Cache) Release(pod types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved.release(pod)
}
