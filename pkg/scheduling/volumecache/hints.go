// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// fewNodes bounds the nodes of a segment that are tried to decide whether an event can
// unblock a pod. With more nodes it is assumed to.
const fewNodes = 16

// VolumeMayUnblock reports whether the volume, as observed by the cache, can make the pod
// schedulable: its disk is not lost, and either it and a claim of the pod name each
// other, or a claim can use it and the pod then fits a node.
func (c *Cache) VolumeMayUnblock(d *Demand, name string) bool {
	c.mu.RLock()
	v := c.volume[name]
	if v == nil {
		c.mu.RUnlock()
		return false
	}
	for _, claim := range d.bound {
		if claim.Spec.VolumeName == name {
			c.mu.RUnlock()
			return v.DiskProblem == match.Fits
		}
	}
	wanted := false
	for i := range d.groups {
		for j := range d.groups[i].pending {
			p := &d.groups[i].pending[j]
			if match.RefersTo(v.PV.Spec.ClaimRef, p.Claim) {
				c.mu.RUnlock()
				return v.DiskProblem == match.Fits
			}
			wanted = wanted || (v.Free() && p.Matches(v.Volume))
		}
	}
	nodes, few := few(v.segment)
	c.mu.RUnlock()
	return wanted && (!few || c.fitsAny(d, nodes))
}

// CapacityMayUnblock reports whether the capacity object can make the pod schedulable.
func (c *Cache) CapacityMayUnblock(d *Demand, object *storagev1.CSIStorageCapacity) bool {
	c.mu.RLock()
	entry := c.capacity[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}]
	c.mu.RUnlock()
	return entry != nil && c.segmentMayUnblock(d, entry.pool.class, entry.pool.segment)
}

// CapacityLeft returns the size of the largest volume that the object's capacity pool can
// still provide, and whether bytes of the pool are held. Zero for an unknown object.
func (c *Cache) CapacityLeft(object *storagev1.CSIStorageCapacity) (bytes int64, held bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	entry := c.capacity[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}]
	if entry == nil {
		return 0, false
	}
	return min(entry.pool.remaining(), entry.pool.newest.largest), entry.pool.held > 0
}

// segmentMayUnblock reports whether what is left of the class in a segment can make the
// pod schedulable: it suffices for a claim of the pod, and the claims then fit a node.
func (c *Cache) segmentMayUnblock(d *Demand, class string, of *segment) bool {
	i := slices.IndexFunc(d.groups, func(g group) bool { return g.class.name == class })
	if i < 0 {
		return false
	}
	c.mu.RLock()
	nodes, few := few(of)
	g, enough := &d.groups[i], false
	for j := range g.pending {
		enough = enough || g.tracked && of.Data.capacity[class].fits(g.pending[j].Bytes) || c.any(d, &g.pending[j], g, location{segments: []*segment{of}})
	}
	if !enough {
		c.noteRejected(d)
	}
	c.mu.RUnlock()
	return enough && (!few || c.fitsAny(d, nodes))
}

// nodeMayUnblock is segmentMayUnblock for all that can be reached from a node. Of a node
// that is gone it is not known what that was.
func (c *Cache) nodeMayUnblock(d *Demand, name string) bool {
	c.mu.RLock()
	entry := c.index.Node(name)
	if entry == nil {
		c.mu.RUnlock()
		return true
	}
	segments := slices.Clone(entry.Segments)
	c.mu.RUnlock()
	return slices.ContainsFunc(segments, func(of *segment) bool {
		return slices.ContainsFunc(d.groups, func(g group) bool { return c.segmentMayUnblock(d, g.class.name, of) })
	})
}

// GivenUp reports whether a volume no longer names a claim of the pod that is not bound:
// any volume may serve the claim now. now is nil for a deleted volume.
func (d *Demand) GivenUp(before, now *v1.PersistentVolume) bool {
	for i := range d.groups {
		for j := range d.groups[i].pending {
			claim := d.groups[i].pending[j].Claim
			if match.RefersTo(before.Spec.ClaimRef, claim) && (now == nil || !match.RefersTo(now.Spec.ClaimRef, claim)) {
				return true
			}
		}
	}
	return false
}

// FitsNode is Fits for the node in the informer's store; false if it does not exist.
func (c *Cache) FitsNode(d *Demand, name string) bool {
	node, err := c.nodes.Get(name)
	return err == nil && c.Fits(d, node).Code == match.Fits
}

// Translates reports whether a bound volume of the pod is an in-tree volume that CSI
// serves on nodes to which its plugin was migrated.
func (c *Cache) Translates(d *Demand) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.ContainsFunc(d.bound, func(claim *v1.PersistentVolumeClaim) bool {
		v := c.volume[claim.Spec.VolumeName]
		return v != nil && v.translated != nil
	})
}

func (c *Cache) fitsAny(d *Demand, nodes []string) bool {
	return slices.ContainsFunc(nodes, func(name string) bool { return c.FitsNode(d, name) })
}

// few returns the nodes of a segment if they are no more than fewNodes.
func few(s *segment) (nodes []string, few bool) {
	if s.Len() > fewNodes {
		return nil, false
	}
	s.Nodes(func(name string) bool { nodes = append(nodes, name); return true })
	return nodes, true
}
