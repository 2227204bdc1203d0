// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"

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
// schedulable: its disk is not lost, and a claim of the pod names it or is named by
// it, or could take it and then fit a node.
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
			return v.Lost == match.Fits
		}
	}
	wanted := false
	for i := range d.groups {
		for j := range d.groups[i].pending {
			p := &d.groups[i].pending[j]
			if match.Names(v.PV.Spec.ClaimRef, p.Claim) {
				c.mu.RUnlock()
				return v.Lost == match.Fits
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
	c.mu.RUnlock()
	return entry != nil && c.roomHelps(d, entry.room)
}

// ClaimReturnHelps tells whether giving back the capacity that was held for a
// claim, which was sent to a node and is gone now or sent nowhere, can make the pod
// schedulable.
func (c *Cache) ClaimReturnHelps(d *Demand, claim *v1.PersistentVolumeClaim) bool {
	node, err := c.nodes.Get(claims.SelectedNode(claim))
	class := match.ClaimClass(claim)
	return err == nil && d.AsksOf(class) && c.returnHelps(d, node, class)
}

// NodeReturnHelps tells whether giving back what was held for claims that were sent
// to a node, which is gone, can make the pod schedulable. node is its last state.
func (c *Cache) NodeReturnHelps(d *Demand, node *v1.Node) bool {
	return slices.ContainsFunc(d.groups, func(g group) bool { return g.tracked && c.returnHelps(d, node, g.class.name) })
}

// returnHelps tells whether bytes given back to the class's capacity on a node can
// make the pod schedulable.
func (c *Cache) returnHelps(d *Demand, node *v1.Node, class string) bool {
	var rooms []*room
	c.mu.RLock()
	for _, segment := range c.spotOf(node).segments {
		if r := segment.Data.rooms[class]; r != nil && r.limited() {
			rooms = append(rooms, r)
		}
	}
	c.mu.RUnlock()
	return slices.ContainsFunc(rooms, func(r *room) bool { return c.roomHelps(d, r) })
}

// roomHelps tells whether what is left of a room can make the pod schedulable: it
// is enough for a claim of the pod, and the claims then fit a node.
func (c *Cache) roomHelps(d *Demand, r *room) bool {
	c.mu.RLock()
	nodes, few := few(r.segment)
	enough := d.asksOfRoom(r)
	c.mu.RUnlock()
	return enough && (!few || c.fitsAny(d, nodes))
}

// asksOfRoom tells whether what is left of a room is enough for a claim that may be
// provisioned from it.
func (d *Demand) asksOfRoom(r *room) bool {
	return slices.ContainsFunc(d.groups, func(g group) bool {
		return g.tracked && g.class.name == r.class &&
			slices.ContainsFunc(g.pending, func(p pending) bool { return r.has(p.Bytes) })
	})
}

// GivenUp tells whether a volume named a claim that the pod waits with and does
// not any more, or is gone: any volume may serve the claim now. now is nil for a
// volume that is gone.
func (d *Demand) GivenUp(before, now *v1.PersistentVolume) bool {
	for i := range d.groups {
		for j := range d.groups[i].pending {
			claim := d.groups[i].pending[j].Claim
			if match.Names(before.Spec.ClaimRef, claim) && (now == nil || !match.Names(now.Spec.ClaimRef, claim)) {
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
