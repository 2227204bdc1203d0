// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/volume/claims"
	"stowage.dev/stowage/pkg/volume/match"
)

// fewNodes is up to how many nodes of a segment are tried to find out whether
// an event helps a pod. With more, it is taken to help.
const fewNodes = 16

// VolumeHelps tells whether the volume, as the cache has it, can make the pod
// schedulable: a claim of the pod names it or is named by it, or could take it
// and then fit a node.
func (c *Cache) VolumeHelps(d *Demand, name string) bool {
	c.mu.RLock()
	v := c.volume[name]
	if v == nil {
		c.mu.RUnlock()
		return false
	}
	for _, claim := range d.bound {
		if claim.Spec.VolumeName == name {
			c.mu.RUnlock()
			return true
		}
	}
	wanted := false
	for i := range d.groups {
		for j := range d.groups[i].pending {
			p := &d.groups[i].pending[j]
			if match.Names(v.PV.Spec.ClaimRef, p.Claim) {
				c.mu.RUnlock()
				return true
			}
			wanted = wanted || (v.Free() && p.Admits(v.Volume))
		}
	}
	nodes, few := few(v.segment)
	c.mu.RUnlock()
	return wanted && (!few || c.fitsAny(d, nodes))
}

// CapacityHelps tells whether the capacity object can make the pod
// schedulable.
func (c *Cache) CapacityHelps(d *Demand, object *storagev1.CSIStorageCapacity) bool {
	if !d.AsksOf(object.StorageClassName) {
		return false
	}
	c.mu.RLock()
	entry := c.capacity[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}]
	if entry == nil {
		c.mu.RUnlock()
		return false
	}
	nodes, few := few(entry.segment)
	c.mu.RUnlock()
	return !few || c.fitsAny(d, nodes)
}

// FitsNode is Fits for the node as the informer's store has it; false when it
// is not there.
func (c *Cache) FitsNode(d *Demand, name string) bool {
	node, err := c.nodes.Get(name)
	return err == nil && c.Fits(d, node).Code == match.Fits
}

// ReservationHelps tells whether giving back what the other pod had reserved
// can make the pod schedulable: both wait for volumes of one class. Of a claim
// that is gone the class is not known any more.
func (c *Cache) ReservationHelps(d *Demand, other *v1.Pod) bool {
	for use := range claims.Used(other) {
		claim := c.Claim(other.Namespace, use.Name)
		if claim == nil && d.Waits() || claim != nil && !claims.IsBound(claim) && d.AsksOf(match.ClaimClass(claim)) {
			return true
		}
	}
	return false
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
