// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// volume is an indexed PersistentVolume. The compiled part is replaced,
// never changed.
type volume struct {
	*match.Volume
	segment *segment
	// translated is the segment of the CSI volume into which an in-tree volume is translated
	// on nodes to which its plugin was migrated; nil otherwise.
	translated *segment
	plugin     string // in-tree plugin name, with translated

	claim types.NamespacedName // that claimRef names; zero: none
	// appeared is the sequence number of the Cache at which the volume was first observed
	// to name the claim.
	appeared uint64

	pool *pool // that contains it; nil: not free, or held
	hold *hold // its reservation; nil: none
}

// ObserveVolume updates the cache to the state of the volume in the informer's store, or
// to its deletion.
func (c *Cache) ObserveVolume(name string) {
	if pv, err := c.volumes.Get(name); err == nil {
		c.ApplyVolume(pv)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.volumes.Get(name); err != nil && c.volume[name] != nil {
		c.dropVolume(c.volume[name])
	}
}

// volumeCurrent reports whether the cache matches the informer's store or has a newer
// state of the volume.
func (c *Cache) volumeCurrent(key types.NamespacedName) bool {
	v := c.volume[key.Name]
	pv, err := c.volumes.Get(key.Name)
	if err != nil || v == nil {
		return err != nil && v == nil
	}
	return v.PV.ResourceVersion == pv.ResourceVersion || !newer(pv.ResourceVersion, v.PV.ResourceVersion)
}

// ApplyVolume indexes a volume as observed or as returned to a write. The newest of pv,
// the indexed state and the state in the informer's store wins; a volume that was removed
// from the store stays removed.
func (c *Cache) ApplyVolume(pv *v1.PersistentVolume) {
	c.mu.RLock()
	seen := c.volume[pv.Name]
	known := seen != nil && !newer(pv.ResourceVersion, seen.PV.ResourceVersion)
	c.mu.RUnlock()
	if known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, err := c.volumes.Get(pv.Name)
	if err != nil {
		return
	}
	if newer(stored.ResourceVersion, pv.ResourceVersion) {
		pv = stored
	}
	old := c.volume[pv.Name]
	if old != nil && !newer(pv.ResourceVersion, old.PV.ResourceVersion) {
		return
	}
	v, since := c.compile(pv), c.stageSince(old, pv)
	if old != nil {
		c.unindexVolume(old)
		v.hold = old.hold
	}
	if old != nil && old.claim == v.claim {
		v.appeared = old.appeared
	} else if v.claim.Name != "" {
		v.appeared = c.reserved.nextSequence()
	}
	if published(pv) && (old == nil || !published(old.PV)) {
		c.notePublished(v)
	}
	c.volume[pv.Name] = v
	if v.claim.Name != "" {
		c.byClaim[v.claim] = append(c.byClaim[v.claim], v)
		c.reserved.volumeAppeared(v)
	}
	c.reserved.keep(v)
	c.free.offer(v)
	c.trackReclaim(v, since)
	c.watch.notify(watchKey{kind: watchVolume, name: v.Name}, watchKey{kind: watchClaim, namespace: v.claim.Namespace, name: v.claim.Name})
}

// volumeDeleted handles a volume that was deleted, unless the cache has observed a
// newer one of that name.
func (c *Cache) volumeDeleted(pv *v1.PersistentVolume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.volume[pv.Name]
	if v == nil || (v.PV.UID != pv.UID && newer(v.PV.ResourceVersion, pv.ResourceVersion)) {
		return
	}
	c.dropVolume(v)
}

// dropVolume removes a deleted volume.
func (c *Cache) dropVolume(v *volume) {
	if c.beingReclaimed(v) {
		c.noteDeleted(v)
	}
	c.unindexVolume(v)
	delete(c.volume, v.Name)
	if v.hold != nil {
		v.hold.volume = nil // the writes of the pod that reserved it will fail
		v.hold = nil
	}
	c.watch.notify(watchKey{kind: watchVolume, name: v.Name}, watchKey{kind: watchClaim, namespace: v.claim.Namespace, name: v.claim.Name})
}

// compile returns the entry of a volume and acquires its segments.
func (c *Cache) compile(pv *v1.PersistentVolume) *volume {
	v := &volume{Volume: match.NewVolume(pv)}
	v.segment = c.index.Acquire(topology.FromNodeAffinity(pv.Spec.NodeAffinity))
	if ref := pv.Spec.ClaimRef; ref != nil {
		v.claim = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	if plugin, translated := c.translate(pv); translated != nil {
		v.plugin = plugin
		v.translated = c.index.Acquire(topology.FromNodeAffinity(translated.Spec.NodeAffinity))
	}
	return v
}

// unindexVolume removes a volume from all indexes except the one by name.
func (c *Cache) unindexVolume(v *volume) {
	c.free.withdraw(v)
	c.dropReclaim(v)
	if v.claim.Name != "" {
		if rest := slices.DeleteFunc(slices.Clone(c.byClaim[v.claim]), func(o *volume) bool { return o == v }); len(rest) > 0 {
			c.byClaim[v.claim] = rest
		} else {
			delete(c.byClaim, v.claim)
		}
	}
	c.index.Release(v.segment)
	if v.translated != nil {
		c.index.Release(v.translated)
	}
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
