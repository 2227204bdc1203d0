// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ObserveNode brings the cache up to what the informer's store has for the
// node, or that it has none.
func (c *Cache) ObserveNode(name string) {
	c.mu.RLock()
	current := c.hasNode(types.NamespacedName{Name: name})
	c.mu.RUnlock()
	if current {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if node, err := c.nodes.Get(name); err == nil {
		c.setNode(node)
	} else {
		c.forgetNode(name)
	}
}

// hasNode tells whether the cache has of a node what the informer's store has.
func (c *Cache) hasNode(key types.NamespacedName) bool {
	entry := c.index.Node(key.Name)
	node, err := c.nodes.Get(key.Name)
	if err != nil || entry == nil {
		return err != nil && entry == nil
	}
	return entry.Object.ResourceVersion == node.ResourceVersion
}

// setNode takes in a node, unless the cache has seen a newer state of it or it
// has left the informer's store.
func (c *Cache) setNode(node *v1.Node) {
	stored, err := c.nodes.Get(node.Name)
	if err != nil {
		return
	}
	if newer(stored.ResourceVersion, node.ResourceVersion) {
		node = stored
	}
	entry := c.index.Node(node.Name)
	if entry != nil && entry.Object.UID == node.UID && !newer(node.ResourceVersion, entry.Object.ResourceVersion) {
		if node == stored && entry.Object.ResourceVersion == node.ResourceVersion {
			c.index.SetNode(node) // listed again: what is asked about from now on is this object
		}
		return
	}
	left := c.index.SetNode(node)
	c.rehome(left)
	c.rehome(c.index.Node(node.Name).Segments)
	c.watch.notify(watchKey{kind: watchNode, name: node.Name})
}

func (c *Cache) removeNode(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.index.Node(node.Name)
	if entry == nil || (entry.Object.UID != node.UID && newer(entry.Object.ResourceVersion, node.ResourceVersion)) {
		return
	}
	c.forgetNode(node.Name)
}

// forgetNode takes a node out that is gone; unknown names are fine.
func (c *Cache) forgetNode(name string) {
	c.rehome(c.index.RemoveNode(name))
	for _, h := range c.holds {
		if h.node == name && len(h.pods) == 0 {
			c.endHold(h) // nothing will be provisioned there
		}
	}
	c.watch.notify(watchKey{kind: watchNode, name: name})
}

// Walk finds nodes that are asked for by name, all of them again and again and in
// about the same order, with hardly a search. The zero Walk is at the beginning.
// Not safe for concurrent use.
type Walk struct{ before *nodeEntry }

// Nodes puts the nodes of those names into nodes, which is as long; nil for one
// that is not known.
func (w *Walk) Nodes(c *Cache, names []string, nodes []*v1.Node) {
	c.mu.RLock()
	for i, name := range names {
		nodes[i] = nil
		if entry := c.index.NamedAfter(w.before, name); entry != nil {
			w.before, nodes[i] = entry, entry.Object
		}
	}
	c.mu.RUnlock()
	for i, node := range nodes {
		if node != nil {
			continue
		}
		// The informer's store may have it already.
		if stored, err := c.nodes.Get(names[i]); err == nil {
			nodes[i] = stored
		}
	}
}

// spot is a node as seen by one question: its name and its segments.
type spot struct {
	node     string
	segments []*segment
}

// spotOf finds the segments of the node that the caller was handed. Where its
// labels differ from the indexed node's (either may be the older one), what was
// handed in decides.
func (c *Cache) spotOf(node *v1.Node) spot {
	return c.spotAt(c.index.NodeOf(node), node)
}

// spotAt is spotOf for callers that have looked for the node's entry.
func (c *Cache) spotAt(entry *nodeEntry, node *v1.Node) spot {
	if entry != nil {
		return spot{entry.Name, entry.Segments}
	}
	if entry := c.index.Node(node.Name); entry != nil && maps.Equal(entry.Object.Labels, node.Labels) {
		return spot{node.Name, entry.Segments}
	}
	return spot{node.Name, c.index.SegmentsOf(node)}
}

func (at spot) in(s *segment) bool { return slices.Contains(at.segments, s) }

// SegmentsMade returns a number that changes when NodeGains may answer differently.
func (c *Cache) SegmentsMade() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.index.Made()
}

// NodeGains tells whether the node, which was updated, is anywhere in reach of more volumes
// or capacity than before.
func (c *Cache) NodeGains(before, now *v1.Node) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	had := c.index.SegmentsOf(before)
	return before.UID != now.UID || slices.ContainsFunc(c.index.SegmentsOf(now), func(s *segment) bool { return !slices.Contains(had, s) })
}

// NodeExists tells whether the informer's store has the node.
func (c *Cache) NodeExists(name string) bool {
	_, err := c.nodes.Get(name)
	return err == nil
}

// NodeAdmits tells whether the node exists and whether the volume, as handed
// in, can be used on it, CSI migration considered.
func (c *Cache) NodeAdmits(pv *v1.PersistentVolume, name string) (exists, admits bool) {
	node, err := c.nodes.Get(name)
	if err != nil {
		return false, false
	}
	affinity := pv.Spec.NodeAffinity
	if plugin, translated := c.translate(pv); translated != nil && c.migrated(plugin, name) {
		affinity = translated.Spec.NodeAffinity
	}
	c.mu.RLock()
	if v := c.volume[pv.Name]; v != nil && v.PV == pv {
		at := c.spotOf(node)
		admits = at.in(c.segmentOn(v, name))
		c.mu.RUnlock()
		return true, admits
	}
	c.mu.RUnlock()
	return true, admitted(affinity, node)
}
