// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
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

// trackReclaim adds the volume, nil for none, to reclaiming, or removes it. since is when
// its stage began, zero for now.
func (c *Cache) trackReclaim(v *volume, since time.Time) {
	if v == nil {
		return
	}
	if !c.beingReclaimed(v) {
		c.dropReclaim(v)
		return
	}
	of := c.reclaiming.volumes[v.segment]
	if of == nil {
		of = map[*volume]time.Time{}
		c.reclaiming.volumes[v.segment] = of
	}
	if _, known := of[v]; !known {
		if since.IsZero() {
			since = c.clock.Now()
		}
		of[v] = since
	}
}

func (c *Cache) dropReclaim(v *volume) {
	of := c.reclaiming.volumes[v.segment]
	if delete(of, v); len(of) == 0 {
		delete(c.reclaiming.volumes, v.segment)
	}
}

// stageSince is when the volume reached the stage that its new state is at; zero if the
// stage changes.
func (c *Cache) stageSince(v *volume, now *v1.PersistentVolume) time.Time {
	if v == nil || v.PV.Status.Phase != now.Status.Phase || (v.PV.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) {
		return time.Time{}
	}
	return c.reclaiming.volumes[v.segment][v]
}

// beingReclaimed reports whether the volume is being reclaimed.
func (c *Cache) beingReclaimed(v *volume) bool {
	switch {
	case v.PV.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete, v.claim.Name == "", v.DiskProblem != match.Fits:
		return false
	case v.PV.Status.Phase == v1.VolumeReleased, v.PV.DeletionTimestamp != nil:
		return true
	case v.PV.Status.Phase != v1.VolumeBound:
		return false
	}
	claim := c.newest.get(v.claim)
	return claim == nil || !match.RefersTo(v.PV.Spec.ClaimRef, claim) || c.abandoned(claim)
}

// abandoned reports whether the pod that owns the claim is terminating or was observed to
// be. A pod that the informer lacks may also have completed, which keeps its claim until
// it is deleted.
func (c *Cache) abandoned(claim *v1.PersistentVolumeClaim) bool {
	if !ownedByPod(claim) {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if pod, err := c.pods.Pods(claim.Namespace).Get(owner.Name); err == nil && pod.UID == owner.UID {
		return terminating(pod)
	}
	return claim.DeletionTimestamp != nil || c.ephemeral[keyOf(claim)]
}

// terminating reports whether the pod is being deleted or preempted.
func terminating(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil || Preempted(pod) }

// Preempted reports whether a scheduler has preempted the pod.
func Preempted(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(cond v1.PodCondition) bool {
		return cond.Type == v1.DisruptionTarget && cond.Status == v1.ConditionTrue && cond.Reason == v1.PodReasonPreemptionByScheduler
	})
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

// published reports whether the PV controller has processed the volume. Until then it
// serves no claim.
func published(pv *v1.PersistentVolume) bool {
	return pv.Status.Phase != "" && pv.Status.Phase != v1.VolumePending
}

// notePublished records that a volume is new: a deleted one of the same name, or one of
// the same class and segment.
func (c *Cache) notePublished(v *volume) {
	gone := c.reclaiming.deleted
	i := slices.IndexFunc(gone, func(g deletedVolume) bool { return g.name == v.Name })
	if i < 0 {
		i = slices.IndexFunc(gone, func(g deletedVolume) bool {
			return g.volume != nil && g.class == v.Class && g.segment == v.segment.Key()
		})
	}
	if i >= 0 {
		c.reclaiming.deleted = slices.Delete(gone, i, i+1)
	}
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
		if d.requestsClass(g.class) && c.outstanding(g, at, now) && admitted(g.pv.Spec.NodeAffinity, node) {
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
