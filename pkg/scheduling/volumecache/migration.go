// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
)

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
