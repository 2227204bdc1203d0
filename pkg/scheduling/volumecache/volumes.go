// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// volume is an indexed PersistentVolume. The compiled part is replaced,
// never changed.
type volume struct {
	*match.Volume
	segment *segment
	// translated is the segment of the CSI volume into which an in-tree volume is translated
	// on nodes to which its plugin was migrated; nil otherwise.
	translated *segment
	plugin     string // in-tree plugin name, with translated

	claim types.NamespacedName // that claimRef names; zero: none
	// appeared is the sequence number of the Cache at which the volume was first observed
	// to name the claim.
	appeared uint64

	pool *pool // that contains it; nil: not free, or held
	hold *hold // its reservation; nil: none
}

// ObserveVolume updates the cache to the state of the volume in the informer's store, or
// to its deletion.
func (c *Cache) ObserveVolume(name string) {
	if pv, err := c.volumes.Get(name); err == nil {
		c.ApplyVolume(pv)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.volumes.Get(name); err != nil && c.volume[name] != nil {
		c.dropVolume(c.volume[name])
	}
}

// volumeCurrent reports whether the cache matches the informer's store or has a newer
// state of the volume.
func (c *Cache) volumeCurrent(key types.NamespacedName) bool {
	v := c.volume[key.Name]
	pv, err := c.volumes.Get(key.Name)
	if err != nil || v == nil {
		return err != nil && v == nil
	}
	return v.PV.ResourceVersion == pv.ResourceVersion || !newer(pv.ResourceVersion, v.PV.ResourceVersion)
}

// ApplyVolume indexes a volume as observed or as returned to a write. The newest of pv,
// the indexed state and the state in the informer's store wins; a volume that was removed
// from the store stays removed.
func (c *Cache) ApplyVolume(pv *v1.PersistentVolume) {
	c.mu.RLock()
	seen := c.volume[pv.Name]
	known := seen != nil && !newer(pv.ResourceVersion, seen.PV.ResourceVersion)
	c.mu.RUnlock()
	if known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, err := c.volumes.Get(pv.Name)
	if err != nil {
		return
	}
	if newer(stored.ResourceVersion, pv.ResourceVersion) {
		pv = stored
	}
	old := c.volume[pv.Name]
	if old != nil && !newer(pv.ResourceVersion, old.PV.ResourceVersion) {
		return
	}
	v, since := c.compile(pv), c.stageSince(old, pv)
	if old != nil {
		c.unindexVolume(old)
		v.hold = old.hold
	}
	if old != nil && old.claim == v.claim {
		v.appeared = old.appeared
	} else if v.claim.Name != "" {
		v.appeared = c.reserved.nextSequence()
	}
	if published(pv) && (old == nil || !published(old.PV)) {
		c.notePublished(v)
	}
	c.volume[pv.Name] = v
	if v.claim.Name != "" {
		c.byClaim[v.claim] = append(c.byClaim[v.claim], v)
		c.reserved.volumeAppeared(v)
	}
	c.reserved.keep(v)
	c.free.offer(v)
	c.trackReclaim(v, since)
	c.watch.notify(watchKey{kind: watchVolume, name: v.Name}, watchKey{kind: watchClaim, namespace: v.claim.Namespace, name: v.claim.Name})
}

// volumeDeleted handles a volume that was deleted, unless the cache has observed a
// newer one of that name.
func (c *Cache) volumeDeleted(pv *v1.PersistentVolume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.volume[pv.Name]
	if v == nil || (v.PV.UID != pv.UID && newer(v.PV.ResourceVersion, pv.ResourceVersion)) {
		return
	}
	c.dropVolume(v)
}

// dropVolume removes a deleted volume.
func (c *Cache) dropVolume(v *volume) {
	if c.beingReclaimed(v) {
		c.noteDeleted(v)
	}
	c.unindexVolume(v)
	delete(c.volume, v.Name)
	if v.hold != nil {
		v.hold.volume = nil // the writes of the pod that reserved it will fail
		v.hold = nil
	}
	c.watch.notify(watchKey{kind: watchVolume, name: v.Name}, watchKey{kind: watchClaim, namespace: v.claim.Namespace, name: v.claim.Name})
}

// compile returns the entry of a volume and acquires its segments.
func (c *Cache) compile(pv *v1.PersistentVolume) *volume {
	v := &volume{Volume: match.NewVolume(pv)}
	v.segment = c.index.Acquire(topology.FromNodeAffinity(pv.Spec.NodeAffinity))
	if ref := pv.Spec.ClaimRef; ref != nil {
		v.claim = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	if plugin, translated := c.translate(pv); translated != nil {
		v.plugin = plugin
		v.translated = c.index.Acquire(topology.FromNodeAffinity(translated.Spec.NodeAffinity))
	}
	return v
}

// unindexVolume removes a volume from all indexes except the one by name.
func (c *Cache) unindexVolume(v *volume) {
	c.free.withdraw(v)
	c.dropReclaim(v)
	if v.claim.Name != "" {
		removeFrom(c.byClaim, v.claim, func(o *volume) bool { return o == v })
	}
	c.index.Release(v.segment)
	if v.translated != nil {
		c.index.Release(v.translated)
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

// ownedByPod reports whether the claim was created for a generic ephemeral volume.
func ownedByPod(claim *v1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return owner != nil && owner.Kind == "Pod" && owner.APIVersion == "v1"
}

// terminating reports whether the pod is being deleted or preempted.
func terminating(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil || Preempted(pod) }

// Preempted reports whether a scheduler has preempted the pod.
func Preempted(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(cond v1.PodCondition) bool {
		return cond.Type == v1.DisruptionTarget && cond.Status == v1.ConditionTrue && cond.Reason == v1.PodReasonPreemptionByScheduler
	})
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
