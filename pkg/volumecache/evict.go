// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/volume/claims"
	"stowage.dev/stowage/pkg/volume/match"
)

// Freed is what evicting a pod would give back: the volume of one of its
// generic ephemeral claims. The claim goes with the pod, and the volume with
// the claim if its reclaim policy is Delete.
type Freed struct {
	pod   types.UID
	name  string
	class string
	// volume is what will be published again, nil where a provisioner makes
	// volumes; then bytes is what returns to its capacity.
	volume *match.Volume
	bytes  int64
}

// Evictable returns what evicting the pod would give back; nil, without
// allocating, for a pod that has no ephemeral volumes, and where no pod in the
// cluster has ephemeral claims.
func (c *Cache) Evictable(pod *v1.Pod) []Freed {
	if !claims.AnyEphemeral(pod) {
		return nil // most pods, of which there are many to a node
	}
	var freed []Freed
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.ephemeral) == 0 {
		return nil
	}
	for use := range claims.Used(pod) {
		if !use.Ephemeral {
			continue
		}
		claim := c.newestClaim(types.NamespacedName{Namespace: pod.Namespace, Name: use.Name})
		if claim == nil || !claims.IsBound(claim) || !ownedByPod(claim) {
			continue
		}
		v := c.volume[claim.Spec.VolumeName]
		if v == nil || v.PV.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
			continue
		}
		f := Freed{pod: pod.UID, name: v.Name, class: v.Class}
		if class := c.Class(v.Class); class != nil && provisions(class) {
			f.bytes = v.Bytes
		} else {
			f.volume = v.Volume
		}
		freed = append(freed, f)
	}
	return freed
}

// AnyEvictable tells whether evicting some pod could give volumes back at all:
// whether any claim belongs to a pod.
func (c *Cache) AnyEvictable() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.ephemeral) > 0
}

// Evict makes the demand reckon with what evicting a pod from the node would
// give back. Use it on a [Demand.Clone].
func (d *Demand) Evict(node string, freed []Freed) {
	if d.whatIf == nil {
		d.whatIf = map[string][]Freed{}
	}
	d.whatIf[node] = append(slices.Clip(d.whatIf[node]), freed...)
}

// Spare undoes Evict for one pod.
func (d *Demand) Spare(node string, pod types.UID) {
	if rest := slices.DeleteFunc(slices.Clone(d.whatIf[node]), func(f Freed) bool { return f.pod == pod }); len(rest) > 0 {
		d.whatIf[node] = rest
	} else {
		delete(d.whatIf, node)
	}
}

// freedBytes is what evictions would return to the capacity of a class.
func (d *Demand) freedBytes(node, class string) int64 {
	var bytes int64
	for i := range d.whatIf[node] {
		if f := &d.whatIf[node][i]; f.class == class {
			bytes = saturate(bytes, f.bytes)
		}
	}
	return bytes
}

// awaitTime bounds how long a pod waits for volumes that its preemption freed
// before it may preempt again: cleaning can take that long.
const awaitTime = 10 * time.Minute

// awaited is what a pod that preempts waits for.
type awaited struct {
	// byNode is what preemption has considered evicting, by node.
	byNode map[string][]Freed
	// node is the one where it did, "" before.
	node  string
	until time.Time
	// cleaning are the volumes of node whose object is gone and that have not
	// come back, by name, with their class.
	cleaning map[string]string
}

// Consider notes that preemption for the pod looks into evicting another from
// the node. Of a pod that is gone nothing is noted: nobody would forget it.
func (c *Cache) Consider(pod *v1.Pod, node string, freed []Freed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The store forgets a pod before podGone, which waits for the lock, does.
	if known, err := c.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || known.UID != pod.UID {
		return
	}
	entry := c.freed[pod.UID]
	if entry == nil {
		entry = &awaited{byNode: map[string][]Freed{}, cleaning: map[string]string{}}
		c.freed[pod.UID] = entry
	}
	// What is gone since an earlier look was not freed for this pod.
	entry.byNode[node] = slices.DeleteFunc(entry.byNode[node], func(f Freed) bool { return c.volume[f.name] == nil })
	for _, f := range freed {
		if !slices.ContainsFunc(entry.byNode[node], func(o Freed) bool { return o.name == f.name }) {
			entry.byNode[node] = append(entry.byNode[node], f)
		}
	}
}

// Awaits tells whether volumes that preemption freed for the pod are still on
// their way back: Released, being cleaned, or gone and not yet published
// again. Evicting more pods would not help it any sooner.
func (c *Cache) Awaits(pod *v1.Pod) bool {
	c.mu.RLock()
	known := c.freed[pod.UID] != nil
	c.mu.RUnlock()
	if !known {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, now := c.freed[pod.UID], c.clock.Now()
	if entry == nil {
		return false
	}
	if entry.node == "" && !c.startWaiting(entry, pod.Status.NominatedNodeName) {
		return false
	}
	switch {
	case !now.Before(entry.until):
		delete(c.freed, pod.UID)
		return false
	case len(entry.cleaning) == 0 && !slices.ContainsFunc(entry.byNode[entry.node], c.returning):
		// Back, or the victim has not begun to leave. The next nomination
		// starts anew.
		entry.node = ""
		return false
	}
	return true
}

// startWaiting finds out on which node preemption took place: the nominated
// one, or, as the pod may be tried again before its nomination is seen, one
// where a pod that was considered is leaving.
func (c *Cache) startWaiting(entry *awaited, nominated string) bool {
	if len(entry.byNode[nominated]) == 0 {
		nominated = ""
		for node, freed := range entry.byNode {
			if slices.ContainsFunc(freed, c.returning) {
				nominated = node
				break
			}
		}
	}
	if nominated == "" {
		return false
	}
	entry.node, entry.until = nominated, c.clock.Now().Add(awaitTime)
	for _, f := range entry.byNode[nominated] {
		if c.volume[f.name] == nil {
			entry.cleaning[f.name] = f.class
		}
	}
	return true
}

// returning tells whether the volume is on its way from the evicted pod back
// to being free.
func (c *Cache) returning(f Freed) bool {
	v := c.volume[f.name]
	if v == nil || v.Free() {
		return false // gone volumes are in cleaning
	}
	if v.PV.Status.Phase == v1.VolumeReleased || v.PV.DeletionTimestamp != nil {
		return true
	}
	claim := c.newestClaim(v.claim)
	return claim == nil || claim.DeletionTimestamp != nil || c.orphaned(claim)
}

// orphaned tells whether the pod that owns the claim is leaving or gone: the
// claim will follow.
func (c *Cache) orphaned(claim *v1.PersistentVolumeClaim) bool {
	if !ownedByPod(claim) {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	pod, err := c.pods.Pods(claim.Namespace).Get(owner.Name)
	return err != nil || pod.UID != owner.UID || pod.DeletionTimestamp != nil
}

// noteGone notes that a volume's object was deleted.
func (c *Cache) noteGone(v *volume) {
	for _, entry := range c.freed {
		if slices.ContainsFunc(entry.byNode[entry.node], func(f Freed) bool { return f.name == v.Name }) {
			entry.cleaning[v.Name] = v.Class
		}
	}
}

// noteReturned notes that a volume is free: one that was cleaned is back.
func (c *Cache) noteReturned(v *volume) {
	if len(c.freed) == 0 || !v.Free() {
		return
	}
	for _, entry := range c.freed {
		if !v.segment.Has(entry.node) {
			continue
		}
		if _, ok := entry.cleaning[v.Name]; ok {
			delete(entry.cleaning, v.Name)
			continue
		}
		for name, class := range entry.cleaning {
			if class == v.Class {
				delete(entry.cleaning, name)
				break
			}
		}
	}
}

// noteCapacity notes new figures of a class: what was freed counts in them.
func (c *Cache) noteCapacity(class string) {
	for _, entry := range c.freed {
		for name, of := range entry.cleaning {
			if of == class {
				delete(entry.cleaning, name)
			}
		}
	}
}
