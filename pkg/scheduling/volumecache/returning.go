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
	// awaitTime bounds how long a stage of a volume's return is waited for: cleaning can
	// take that long. Stages are the end of its pod and claim, Released, being deleted,
	// and gone but not published again.
	awaitTime = 10 * time.Minute
	// mostGone bounds the volumes that are kept as gone. The oldest are forgotten first.
	mostGone = 1024
)

// returning is the storage that is on its way back: volumes with reclaim policy Delete
// whose claim is about to go or gone. All of it is derived from objects, so that a
// restart loses nothing, but for the time between two objects; see gone and inherited.
type returning struct {
	// volumes that still exist, by segment, with the time since which they are at their
	// stage.
	volumes map[*segment]map[*volume]time.Time
	// gone are volumes whose object was deleted, the oldest first: until one is published
	// in their place, or capacity within reach was reported.
	gone []goneVolume
}

type goneVolume struct {
	Freed
	pv      *v1.PersistentVolume
	segment string // its key
	at      time.Time
	turn    uint64
}

// followReturn notes whether the volume, nil for none, is on its way back. since is
// when that began, zero for now.
func (c *Cache) followReturn(v *volume, since time.Time) {
	if v == nil {
		return
	}
	if !c.returns(v) {
		c.forgetReturn(v)
		return
	}
	of := c.returning.volumes[v.segment]
	if of == nil {
		of = map[*volume]time.Time{}
		c.returning.volumes[v.segment] = of
	}
	if _, known := of[v]; !known {
		if since.IsZero() {
			since = c.clock.Now()
		}
		of[v] = since
	}
}

func (c *Cache) forgetReturn(v *volume) {
	of := c.returning.volumes[v.segment]
	if delete(of, v); len(of) == 0 {
		delete(c.returning.volumes, v.segment)
	}
}

// stageSince is when the volume came to the stage that now is at too; zero if it is at
// another one.
func (c *Cache) stageSince(v *volume, now *v1.PersistentVolume) time.Time {
	if v == nil || v.PV.Status.Phase != now.Status.Phase || (v.PV.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) {
		return time.Time{}
	}
	return c.returning.volumes[v.segment][v]
}

// returns tells whether the volume is on its way back.
func (c *Cache) returns(v *volume) bool {
	switch {
	case v.PV.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete, v.claim.Name == "", v.Lost != match.Fits:
		return false
	case v.PV.Status.Phase == v1.VolumeReleased, v.PV.DeletionTimestamp != nil:
		return true
	case v.PV.Status.Phase != v1.VolumeBound:
		return false
	}
	claim := c.newestClaim(v.claim)
	return claim == nil || !match.RefersTo(v.PV.Spec.ClaimRef, claim) || c.abandoned(claim)
}

// abandoned tells whether the pod that owns the claim is leaving or was seen to leave.
// A pod that is absent may also have finished: it has left the informer then, and
// keeps its claim until it is deleted.
func (c *Cache) abandoned(claim *v1.PersistentVolumeClaim) bool {
	if !ownedByPod(claim) {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if pod, err := c.pods.Pods(claim.Namespace).Get(owner.Name); err == nil && pod.UID == owner.UID {
		return leaving(pod)
	}
	return claim.DeletionTimestamp != nil || c.ephemeral[keyOf(claim)]
}

// leaving tells whether the pod is being deleted, or is about to be by preemption.
func leaving(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || slices.ContainsFunc(pod.Status.Conditions, func(cond v1.PodCondition) bool {
		return cond.Type == v1.DisruptionTarget && cond.Status == v1.ConditionTrue && cond.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// noteLeaving notes that a pod which has ephemeral volumes leaves.
func (c *Cache) noteLeaving(pod *v1.Pod) {
	for use := range claims.Used(pod) {
		if !use.Ephemeral {
			continue
		}
		claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(use.Name)
		if err == nil && metav1.IsControlledBy(claim, pod) {
			c.ephemeral[keyOf(claim)] = true
			c.followReturn(c.volume[claim.Spec.VolumeName], time.Time{})
		}
	}
}

// noteGone notes that the object of a volume which was on its way back is gone.
func (c *Cache) noteGone(v *volume) {
	freed := c.freedOf(v)
	if freed.volume == nil && !c.tracks(v.Class) {
		return
	}
	if len(c.returning.gone) >= mostGone {
		c.returning.gone = slices.Delete(c.returning.gone, 0, 1)
	}
	c.returning.gone = append(c.returning.gone, goneVolume{Freed: freed, pv: v.PV, segment: v.segment.Key(), at: c.clock.Now(), turn: c.nextTurn()})
}

// tracks tells whether capacity objects bound what is made of the class.
func (c *Cache) tracks(class string) bool {
	object := c.Class(class)
	if object == nil || !provisions(object) {
		return false
	}
	driver, err := c.drivers.Get(object.Provisioner)
	return err == nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
}

// published tells whether the PV controller has made the volume Available, or more. Until
// then it serves no claim.
func published(pv *v1.PersistentVolume) bool {
	return pv.Status.Phase != "" && pv.Status.Phase != v1.VolumePending
}

// notePublished notes that a volume is new: one that was gone, or what was made of its
// disk.
func (c *Cache) notePublished(v *volume) {
	gone := c.returning.gone
	i := slices.IndexFunc(gone, func(g goneVolume) bool { return g.name == v.Name })
	if i < 0 {
		i = slices.IndexFunc(gone, func(g goneVolume) bool {
			return g.volume != nil && g.class == v.Class && g.segment == v.segment.Key()
		})
	}
	if i >= 0 {
		c.returning.gone = slices.Delete(gone, i, i+1)
	}
}

// returningTo is what is on its way back to the node, of the classes that the demand
// asks of.
func (c *Cache) returningTo(d *Demand, at spot, node *v1.Node) (freed []Freed) {
	now := c.clock.Now()
	for _, segment := range at.segments {
		for v, since := range c.returning.volumes[segment] {
			if now.Sub(since) < awaitTime && d.AsksOf(v.Class) {
				freed = append(freed, c.freedOf(v))
			}
		}
	}
	for i := range c.returning.gone {
		g := &c.returning.gone[i]
		if d.AsksOf(g.class) && c.outstanding(g, at, now) && admitted(g.pv.Spec.NodeAffinity, node) {
			freed = append(freed, g.Freed)
		}
	}
	return freed
}

// outstanding tells whether what was gone is still to come. Bytes are part of whatever
// capacity is reported within reach afterwards.
func (c *Cache) outstanding(g *goneVolume, at spot, now time.Time) bool {
	if g.volume != nil {
		return now.Sub(g.at) < awaitTime
	}
	for _, segment := range at.segments {
		if r := segment.Data.rooms[g.class]; r != nil && r.newest != nil && r.newest.turn > g.turn {
			return false
		}
	}
	return now.Sub(g.at) < settleTime
}
