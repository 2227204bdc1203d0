// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

const (
	// awaitTime bounds how long a nominated pod waits for one stage of reclaiming:
	// cleaning can take that long. The stages are: pod and claim are being deleted, the
	// volume is Released, it is being deleted, it was deleted but not published again.
	awaitTime = 10 * time.Minute
	// maxDeleted bounds the deleted volumes that are kept. The oldest are dropped first.
	maxDeleted = 1024
)

// reclaiming is the storage that is being reclaimed: volumes with reclaim policy Delete
// whose claim was deleted or is about to be. All of it is derived from objects, so a
// restart loses only what has no object; see deleted and nomination.inherited.
type reclaiming struct {
	// volumes are those that exist, by segment, with the time at which they reached their
	// stage.
	volumes map[*segment]map[*volume]time.Time
	// deleted are volumes whose object was deleted, the oldest first: until one is
	// published instead, or capacity reachable from the node was reported.
	deleted []deletedVolume
}

type deletedVolume struct {
	Freed
	pv       *v1.PersistentVolume
	segment  string // its key
	at       time.Time
	sequence uint64
}

// noteTerminating records that a pod with ephemeral volumes is terminating.
func (c *Cache) noteTerminating(pod *v1.Pod) {
	for use := range claims.Used(pod) {
		if !use.Ephemeral {
			continue
		}
		claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(use.Name)
		if err == nil && metav1.IsControlledBy(claim, pod) {
			c.ephemeral[keyOf(claim)] = true
			c.trackReclaim(c.volume[claim.Spec.VolumeName], time.Time{})
		}
	}
}

// noteDeleted records that the object of a volume that was being reclaimed was deleted.
func (c *Cache) noteDeleted(v *volume) {
	freed := c.freedOf(v)
	if freed.volume == nil && !c.tracksCapacity(c.Class(v.Class)) {
		return
	}
	if len(c.reclaiming.deleted) >= maxDeleted {
		c.reclaiming.deleted = slices.Delete(c.reclaiming.deleted, 0, 1)
	}
	c.reclaiming.deleted = append(c.reclaiming.deleted, deletedVolume{Freed: freed, pv: v.PV, segment: v.segment.Key(), at: c.clock.Now(), sequence: c.reserved.nextSequence()})
}

// reclaimedFor is what is being reclaimed on the node, of the demand's classes.
func (c *Cache) reclaimedFor(d *Demand, at location, node *v1.Node) (freed []Freed) {
	now := c.clock.Now()
	for _, segment := range at.segments {
		for v, since := range c.reclaiming.volumes[segment] {
			if now.Sub(since) < awaitTime && d.requestsClass(v.Class) {
				freed = append(freed, c.freedOf(v))
			}
		}
	}
	for i := range c.reclaiming.deleted {
		g := &c.reclaiming.deleted[i]
		if d.requestsClass(g.class) && c.outstanding(g, at, now) && topology.FromNodeAffinity(g.pv.Spec.NodeAffinity).Admits(node) {
			freed = append(freed, g.Freed)
		}
	}
	return freed
}

// outstanding reports whether a deleted volume has not been published again. Bytes are
// part of the next capacity reported for the node.
func (c *Cache) outstanding(g *deletedVolume, at location, now time.Time) bool {
	if g.volume != nil {
		return now.Sub(g.at) < awaitTime
	}
	for _, segment := range at.segments {
		if r := segment.Data.capacity[g.class]; r != nil && r.newest != nil && r.newest.sequence > g.sequence {
			return false
		}
	}
	return now.Sub(g.at) < reportTime
}
