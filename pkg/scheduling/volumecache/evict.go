// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
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

// freedOf is what comes back when the volume is reclaimed.
func (c *Cache) freedOf(v *volume) Freed {
	f := Freed{name: v.Name, class: v.Class}
	if class := c.Class(v.Class); class != nil && provisions(class) {
		f.bytes = v.Bytes
		return f
	}
	if f.volume = v.Volume; v.PV.DeletionTimestamp != nil { // what is published again is not
		pv := *v.PV
		pv.DeletionTimestamp = nil
		f.volume = match.NewVolume(&pv)
	}
	return f
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
