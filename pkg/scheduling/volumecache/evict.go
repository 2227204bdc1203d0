// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Freed is a volume that evicting a pod frees: that of one of its generic ephemeral
// claims. The claim is deleted with the pod, and the volume with the claim if its
// reclaim policy is Delete.
type Freed struct {
	pod   types.UID
	name  string
	class string
	// volume is what will be published again, nil if the class has a provisioner; then
	// bytes is what its capacity regains.
	volume *match.Volume
	bytes  int64
}

// Evictable returns what evicting the pod would free; nil, without allocating, for a pod
// that has no ephemeral volumes or if no pod in the cluster has ephemeral claims.
func (c *Cache) Evictable(pod *v1.Pod) []Freed {
	if !claims.AnyEphemeral(pod) {
		return nil // most pods
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
		claim := c.newest.get(types.NamespacedName{Namespace: pod.Namespace, Name: use.Name})
		if claim == nil || !plan.IsBound(claim) || !ownedByPod(claim) {
			continue
		}
		v := c.volume[claim.Spec.VolumeName]
		if v == nil || v.PV.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
			continue
		}
		f := c.freedOf(v)
		f.pod = pod.UID
		freed = append(freed, f)
	}
	return freed
}

// freedOf is what reclaiming the volume frees.
func (c *Cache) freedOf(v *volume) Freed {
	f := Freed{name: v.Name, class: v.Class}
	if class := c.Class(v.Class); class != nil && provisions(class) {
		f.bytes = v.Bytes
		return f
	}
	if f.volume = v.Volume; v.PV.DeletionTimestamp != nil { // what is published again is not being deleted
		pv := *v.PV
		pv.DeletionTimestamp = nil
		f.volume = match.NewVolume(&pv)
	}
	return f
}

// AnyEvictable reports whether evicting some pod could free volumes: whether any claim
// belongs to a pod.
func (c *Cache) AnyEvictable() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.ephemeral) > 0
}

// SimulateEviction makes the demand account for what evicting a pod from the node would
// free. Use it on a [Demand.Clone]. UndoEviction is its inverse; it takes the pod, and not
// a closure, because a simulation may be undone on a later clone.
func (d *Demand) SimulateEviction(node string, freed []Freed) {
	if d.evictions == nil {
		d.evictions = map[string][]Freed{}
	}
	d.evictions[node] = append(slices.Clip(d.evictions[node]), freed...)
}

// UndoEviction undoes SimulateEviction for one pod.
func (d *Demand) UndoEviction(node string, pod types.UID) {
	removeFrom(d.evictions, node, func(f Freed) bool { return f.pod == pod })
}

// EvictionHelps reports whether the claims, which do not fit the node for the given reason,
// would fit if all of its pods of lower priority were evicted and their ephemeral volumes
// reclaimed. It reads the pods only if they matter.
func (c *Cache) EvictionHelps(d *Demand, node *v1.Node, pods iter.Seq[*v1.Pod], why match.Reason) bool {
	if why.Code != match.NoVolume && why.Code != match.NotEnoughSpace || !c.AnyEvictable() {
		return false
	}
	priority, after := corev1helpers.PodPriority(d.Pod()), d
	for other := range pods {
		if corev1helpers.PodPriority(other) >= priority {
			continue
		}
		if freed := c.Evictable(other); len(freed) > 0 {
			if after == d {
				after = d.Clone()
			}
			after.SimulateEviction(node.Name, freed)
		}
	}
	return after != d && c.Fits(after, node).Code == match.Fits
}
