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

// volume is a PersistentVolume in the cache. The compiled part is replaced,
// never changed.
type volume struct {
	*match.Volume
	segment *segment
	// translated is the segment of the CSI volume that an in-tree volume turns
	// into on nodes where its plugin has been migrated; nil otherwise.
	translated *segment
	plugin     string // in-tree plugin name, with translated

	claim types.NamespacedName // that claimRef names; zero: none
	pool  *pool                // the one it is free in; nil: not free, or held
	hold  *hold                // who has reserved it; nil: nobody
}

// ObserveVolume brings the cache up to what the informer's store has for the
// volume, or that it has none.
func (c *Cache) ObserveVolume(name string) {
	if pv, err := c.volumes.Get(name); err == nil {
		c.ApplyVolume(pv)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.volumes.Get(name); err != nil && c.volume[name] != nil {
		c.forgetVolume(c.volume[name])
	}
}

// hasVolume tells whether the cache has of a volume what the informer's store
// has, or a newer state of it.
func (c *Cache) hasVolume(key types.NamespacedName) bool {
	v := c.volume[key.Name]
	pv, err := c.volumes.Get(key.Name)
	if err != nil || v == nil {
		return err != nil && v == nil
	}
	return v.PV.ResourceVersion == pv.ResourceVersion || !newer(pv.ResourceVersion, v.PV.ResourceVersion)
}

// ApplyVolume takes in a volume as observed or as returned to a write. The
// newest of it, what the cache has and what the informer's store has wins; one
// that has left the store is gone for good and stays so.
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
		c.dropVolume(old)
		v.hold = old.hold
	}
	if published(pv) && (old == nil || !published(old.PV)) {
		c.notePublished(v)
	}
	c.volume[pv.Name] = v
	if v.claim.Name != "" {
		c.byClaim[v.claim] = append(c.byClaim[v.claim], v)
		c.claimServed(v)
	}
	c.keepHold(v)
	c.offer(v)
	c.followReturn(v, since)
	c.watch.notify(watchKey{kind: watchVolume, name: v.Name}, watchKey{kind: watchClaim, namespace: v.claim.Namespace, name: v.claim.Name})
}

// removeVolume forgets a volume that was deleted, unless the cache has seen a
// newer one of that name.
func (c *Cache) removeVolume(pv *v1.PersistentVolume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.volume[pv.Name]
	if v == nil || (v.PV.UID != pv.UID && newer(v.PV.ResourceVersion, pv.ResourceVersion)) {
		return
	}
	c.forgetVolume(v)
}

// forgetVolume takes a volume out that is gone.
func (c *Cache) forgetVolume(v *volume) {
	if c.returns(v) {
		c.noteGone(v)
	}
	c.dropVolume(v)
	delete(c.volume, v.Name)
	if v.hold != nil {
		v.hold.volume = nil // the writes of its owner will fail by themselves
		v.hold = nil
	}
	c.watch.notify(watchKey{kind: watchVolume, name: v.Name}, watchKey{kind: watchClaim, namespace: v.claim.Namespace, name: v.claim.Name})
}

// compile makes the cache's entry of a volume and takes its segments.
func (c *Cache) compile(pv *v1.PersistentVolume) *volume {
	v := &volume{Volume: match.NewVolume(pv)}
	v.segment = c.index.Acquire(topology.FromNodeAffinity(pv.Spec.NodeAffinity))
	c.rehome([]*segment{v.segment})
	if ref := pv.Spec.ClaimRef; ref != nil {
		v.claim = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	if plugin, translated := c.translate(pv); translated != nil {
		v.plugin = plugin
		v.translated = c.index.Acquire(topology.FromNodeAffinity(translated.Spec.NodeAffinity))
	}
	return v
}

// dropVolume takes a volume out of all indexes but the one by name.
func (c *Cache) dropVolume(v *volume) {
	c.withdraw(v)
	c.forgetReturn(v)
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

// keepHold moves a reservation on to the newest state of its volume, or ends
// it when that state contradicts it: what is observed wins.
func (c *Cache) keepHold(v *volume) {
	h := v.hold
	if h == nil {
		return
	}
	if v.Free() || (v.claim == h.claim && match.RefersTo(v.PV.Spec.ClaimRef, h.object) && v.PV.DeletionTimestamp == nil) {
		h.volume = v
		return
	}
	h.volume, v.hold = nil, nil
}

// offer puts a volume into its pool if it is free and not reserved.
func (c *Cache) offer(v *volume) {
	if v.pool != nil || v.hold != nil || !v.Free() {
		return
	}
	class := c.classEntry(v.Class)
	p := class.pools[v.segment]
	if p == nil {
		p = v.segment.Data.add(class)
		if v.segment.Data.wide {
			class.wide++
		}
		for key := range class.labelKeys {
			p.IndexLabel(key)
		}
		class.pools[v.segment] = p
	}
	p.Insert(v.Volume)
	c.version++
	p.version = c.version
	v.pool = p
	if home := v.segment.Data.home; home != nil {
		home.Data.put(class, p)
	}
}

// withdraw takes a volume out of its pool.
func (c *Cache) withdraw(v *volume) {
	p := v.pool
	if p == nil {
		return
	}
	p.Remove(v.Volume)
	c.version++
	p.version = c.version
	v.pool = nil
	class, home := c.class[v.Class], v.segment.Data.home
	if p.Len() > 0 {
		if home != nil {
			home.Data.put(class, p)
		}
		return
	}
	if home != nil {
		home.Data.remove(p)
	}
	if v.segment.Data.wide {
		class.wide--
	}
	v.segment.Data.drop(p)
	delete(class.pools, v.segment)
	c.forgetClass(class)
}

// add makes an empty pool for the class, which has none in the segment.
func (d *content) add(class *class) *pool {
	if len(d.pools) == 0 {
		d.pools = d.room[:0]
	}
	p := &d.first
	if slices.ContainsFunc(d.pools, func(o classPool) bool { return o.pool == p }) {
		p = &pool{}
	}
	d.pools = append(d.pools, classPool{class, p})
	return p
}

// drop forgets an empty pool.
func (d *content) drop(p *pool) {
	d.pools = slices.DeleteFunc(d.pools, func(o classPool) bool { return o.pool == p })
	if p == &d.first {
		d.first = pool{}
	}
}

// segmentOn is the segment that decides whether the volume can be used on a
// node: the translated one where the node runs the volume's plugin through CSI.
func (c *Cache) segmentOn(v *volume, node string) *segment {
	if v.translated == nil || !c.migrated(v.plugin, node) {
		return v.segment
	}
	return v.translated
}

// migrated tells whether the node's kubelet runs the in-tree plugin through
// CSI (annotation storage.alpha.kubernetes.io/migrated-plugins of its CSINode).
func (c *Cache) migrated(plugin, node string) bool {
	csiNode, err := c.csiNodes.Get(node)
	if err != nil {
		return false // not there yet, or no CSI on that node
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

// translate gives the CSI form of an in-tree volume, nil when there is none.
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
		return "", nil // judged by its own affinity, as on a node without CSI
	}
	return plugin, translated
}
