// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/scheduling/topology"
)

// ObserveNode updates the cache to the state of the node in the informer's store, or to
// its deletion.
func (c *Cache) ObserveNode(name string) {
	c.mu.RLock()
	current := c.nodeCurrent(types.NamespacedName{Name: name})
	c.mu.RUnlock()
	if current {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if node, err := c.nodes.Get(name); err == nil {
		c.setNode(node)
	} else {
		c.dropNode(name)
	}
}

func (c *Cache) nodeCurrent(key types.NamespacedName) bool {
	entry := c.index.Node(key.Name)
	node, err := c.nodes.Get(key.Name)
	if err != nil || entry == nil {
		return err != nil && entry == nil
	}
	return entry.Object.ResourceVersion == node.ResourceVersion
}

// setNode indexes a node, unless the cache has observed a newer state of it or it
// was removed from the informer's store.
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
			c.index.SetNode(node) // listed again: callers pass this object from now on
		}
		return
	}
	c.index.SetNode(node)
	c.watch.notify(watchKey{kind: watchNode, name: node.Name})
}

func (c *Cache) nodeDeleted(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.index.Node(node.Name)
	if entry == nil || (entry.Object.UID != node.UID && newer(entry.Object.ResourceVersion, node.ResourceVersion)) {
		return
	}
	c.dropNode(node.Name)
}

// dropNode removes a deleted node; unknown names are fine.
func (c *Cache) dropNode(name string) {
	c.index.RemoveNode(name)
	c.reserved.nodeDeleted(name)
	c.watch.notify(watchKey{kind: watchNode, name: name})
}

// NodesNamed writes the nodes of the names to nodes, which has the same length; nil for
// an unknown node.
func (c *Cache) NodesNamed(names []string, nodes []*v1.Node) {
	c.mu.RLock()
	for i, name := range names {
		nodes[i] = nil
		if entry := c.index.Node(name); entry != nil {
			nodes[i] = entry.Object
		}
	}
	c.mu.RUnlock()
	for i, node := range nodes {
		if node != nil {
			continue
		}
		// The informer's store may be ahead of the cache.
		if stored, err := c.nodes.Get(names[i]); err == nil {
			nodes[i] = stored
		}
	}
}

// SegmentsCreated returns a number that changes when the result of NodeGains may change.
func (c *Cache) SegmentsCreated() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.index.SegmentsCreated()
}

// NodeGains reports whether the updated node can reach volumes or capacity that it could
// not reach before.
func (c *Cache) NodeGains(before, now *v1.Node) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	had := c.index.SegmentsOf(before)
	return before.UID != now.UID || slices.ContainsFunc(c.index.SegmentsOf(now), func(s *segment) bool { return !slices.Contains(had, s) })
}

// NodeExists reports whether the informer's store contains the node.
func (c *Cache) NodeExists(name string) bool {
	_, err := c.nodes.Get(name)
	return err == nil
}

// location is the node for which claims are solved: its name and its segments. The zero
// location is anywhere.
type location struct {
	node     string
	segments []*segment
}

// locationOf returns the segments of the node as passed by the caller. If its labels differ
// from the indexed node's (either may be older), the caller's apply.
func (c *Cache) locationOf(node *v1.Node) location {
	if entry := c.index.NodeByObject(node); entry != nil {
		return location{entry.Name, entry.Segments}
	}
	if entry := c.index.Node(node.Name); entry != nil && maps.Equal(entry.Object.Labels, node.Labels) {
		return location{node.Name, entry.Segments}
	}
	return location{node.Name, c.index.SegmentsOf(node)}
}

func (at location) in(s *segment) bool { return at.node == "" || slices.Contains(at.segments, s) }

// NodeAdmits reports whether the node exists and whether the volume, as passed by the
// caller, can be used on it, considering CSI migration.
func (c *Cache) NodeAdmits(pv *v1.PersistentVolume, name string) (exists, admits bool) {
	node, err := c.nodes.Get(name)
	if err != nil {
		return false, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v := c.volume[pv.Name]; v != nil && v.PV == pv {
		return true, c.locationOf(node).in(c.segmentOn(v, name))
	}
	if plugin, translated := c.translate(pv); translated != nil && c.migrated(plugin, name) {
		pv = translated
	}
	return true, topology.FromNodeAffinity(pv.Spec.NodeAffinity).Admits(node)
}

// segmentOn is the segment that decides whether the volume can be used on the
// node: the translated one if the node runs the volume's plugin through CSI.
func (c *Cache) segmentOn(v *volume, node string) *segment {
	if v.translated == nil || !c.migrated(v.plugin, node) {
		return v.segment
	}
	return v.translated
}

// migrated reports whether the node's kubelet runs the in-tree plugin through
// CSI (annotation storage.alpha.kubernetes.io/migrated-plugins of its CSINode).
func (c *Cache) migrated(plugin, node string) bool {
	csiNode, err := c.csiNodes.Get(node)
	if err != nil {
		return false // not created yet, or no CSI on that node
	}
	rest := csiNode.Annotations[v1.MigratedPluginsAnnotationKey]
	for rest != "" {
		var name string
		if name, rest, _ = strings.Cut(rest, ","); name == plugin {
			return true
		}
	}
	return false
}

// migratable are the in-tree plugins whose migration to CSI is always on.
var migratable = map[string]bool{
	plugins.AWSEBSInTreePluginName:    true,
	plugins.GCEPDInTreePluginName:     true,
	plugins.AzureDiskInTreePluginName: true,
	plugins.CinderInTreePluginName:    true,
	plugins.PortworxVolumePluginName:  true,
}

// translate returns the CSI form of an in-tree volume, nil for none.
func (c *Cache) translate(pv *v1.PersistentVolume) (plugin string, translated *v1.PersistentVolume) {
	if !c.translator.IsPVMigratable(pv) {
		return "", nil
	}
	plugin, err := c.translator.GetInTreePluginNameFromSpec(pv, nil)
	if err != nil || !migratable[plugin] {
		return "", nil
	}
	translated, err = c.translator.TranslateInTreePVToCSI(klog.Background(), pv)
	if err != nil {
		return "", nil // its own affinity applies, as on a node without CSI
	}
	return plugin, translated
}
