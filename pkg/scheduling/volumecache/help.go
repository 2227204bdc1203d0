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

// fewNodes is up to how many nodes of a segment are tried to find out whether
// an event helps a pod. With more, it is taken to help.
const fewNodes = 16

// VolumeMayUnblock tells whether the volume, as the cache has it, can make the pod
// schedulable: its disk is not lost, and a claim of the pod names it or is named by
// it, or could take it and then fit a node.
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
			return v.Lost == match.Fits
		}
	}
	wanted := false
	for i := range d.groups {
		for j := range d.groups[i].pending {
			p := &d.groups[i].pending[j]
			if match.RefersTo(v.PV.Spec.ClaimRef, p.Claim) {
				c.mu.RUnlock()
				return v.Lost == match.Fits
			}
			wanted = wanted || (v.Free() && p.Matches(v.Volume))
		}
	}
	nodes, few := few(v.segment)
	c.mu.RUnlock()
	return wanted && (!few || c.fitsAny(d, nodes))
}

// CapacityHelps tells whether the capacity object can make the pod
// schedulable.
func (c *Cache) CapacityHelps(d *Demand, object *storagev1.CSIStorageCapacity) bool {
	c.mu.RLock()
	entry := c.capacity[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}]
	c.mu.RUnlock()
	return entry != nil && c.segmentHelps(d, entry.room.class, entry.room.segment)
}

// CapacityLeft returns the bytes of the largest volume that there is capacity for where
// the object tells of it, and whether more than that is held. An object that is not
// known leaves nothing.
func (c *Cache) CapacityLeft(object *storagev1.CSIStorageCapacity) (bytes int64, held bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	entry := c.capacity[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}]
	if entry == nil {
		return 0, false
	}
	return min(entry.room.remaining(), entry.room.newest.largest), entry.room.held > 0
}

// segmentHelps tells whether what the class has left in a segment can make the pod
// schedulable: it is enough for a claim of the pod, and the claims then fit a node.
func (c *Cache) segmentHelps(d *Demand, class string, of *segment) bool {
	i := slices.IndexFunc(d.groups, func(g group) bool { return g.class.name == class })
	if i < 0 {
		return false
	}
	c.mu.RLock()
	nodes, few := few(of)
	g, enough := &d.groups[i], false
	for j := range g.pending {
		enough = enough || g.tracked && of.Data.rooms[class].has(g.pending[j].Bytes) || c.any(d, &g.pending[j], g, spot{segments: []*segment{of}})
	}
	if !enough {
		c.noteRefused(d)
	}
	c.mu.RUnlock()
	return enough && (!few || c.fitsAny(d, nodes))
}

// GivenUp tells whether a volume named a claim that the pod waits with and does
// not any more, or is gone: any volume may serve the claim now. now is nil for a
// volume that is gone.
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

// FitsNode is Fits for the node as the informer's store has it; false when it
// is not there.
func (c *Cache) FitsNode(d *Demand, name string) bool {
	node, err := c.nodes.Get(name)
	return err == nil && c.Fits(d, node).Code == match.Fits
}

// Translates tells whether a bound volume of the pod is an in-tree one that
// CSI serves on some nodes.
func (c *Cache) Translates(d *Demand) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, claim := range d.bound {
		if v := c.volume[claim.Spec.VolumeName]; v != nil && v.translated != nil {
			return true
		}
	}
	return false
}

func (c *Cache) fitsAny(d *Demand, nodes []string) bool {
	for _, name := range nodes {
		if c.FitsNode(d, name) {
			return true
		}
	}
	return false
}

// few returns the nodes of a segment if there are few.
func few(s *segment) (nodes []string, few bool) {
	if s.Len() > fewNodes {
		return nil, false
	}
	s.Nodes(func(name string) bool { nodes = append(nodes, name); return true })
	return nodes, true
}
