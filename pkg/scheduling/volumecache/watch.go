// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// watchKind is the kind of object that a binding waits for events on.
type watchKind uint8

const (
	watchVolume watchKind = iota
	watchClaim            // also: a volume whose claimRef names the claim
	watchNode
	watchPod
)

type watchKey struct {
	kind            watchKind
	namespace, name string
}

// watchers signals subscribers that an object changed.
type watchers struct {
	mu    sync.Mutex
	byKey map[watchKey]map[*watcher]struct{}
}

// watcher is one subscription; changed buffers one signal.
type watcher struct {
	changed chan struct{}
	keys    []watchKey
}

// notify signals all subscribers of the keys.
func (w *watchers) notify(keys ...watchKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		for waiting := range w.byKey[key] {
			select {
			case waiting.changed <- struct{}{}:
			default: // signals coalesce
			}
		}
	}
}

// Subscribe returns a channel that holds a signal after any event on the
// plan's pod, node, claims and volumes, or on a volume whose claimRef names one
// of its claims. Signals coalesce. The caller calls stop when done.
func (c *Cache) Subscribe(p *plan.Plan) (changed <-chan struct{}, stop func()) {
	waiting := &watcher{changed: make(chan struct{}, 1)}
	if p.Node != "" {
		waiting.keys = append(waiting.keys, watchKey{kind: watchNode, name: p.Node})
	}
	if p.Pod.Name != "" {
		waiting.keys = append(waiting.keys, watchKey{kind: watchPod, namespace: p.Pod.Namespace, name: p.Pod.Name})
	}
	for _, b := range p.Bindings {
		waiting.keys = append(waiting.keys, watchKey{kind: watchVolume, name: b.Volume.Name}, claimKey(b.Claim))
	}
	for _, made := range p.Provisions {
		waiting.keys = append(waiting.keys, claimKey(made.Claim))
	}
	c.watch.add(waiting)
	return waiting.changed, func() { c.watch.remove(waiting) }
}

func claimKey(claim *v1.PersistentVolumeClaim) watchKey {
	return watchKey{kind: watchClaim, namespace: claim.Namespace, name: claim.Name}
}

func (w *watchers) add(waiting *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range waiting.keys {
		if w.byKey[key] == nil {
			w.byKey[key] = map[*watcher]struct{}{}
		}
		w.byKey[key][waiting] = struct{}{}
	}
}

func (w *watchers) remove(waiting *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range waiting.keys {
		if delete(w.byKey[key], waiting); len(w.byKey[key]) == 0 {
			delete(w.byKey, key)
		}
	}
}

// Volume returns the newest known state of a volume, nil for none.
func (c *Cache) Volume(name string) *v1.PersistentVolume {
	c.mu.RLock()
	v := c.volume[name]
	c.mu.RUnlock()
	stored, err := c.volumes.Get(name)
	switch {
	case err != nil:
		return nil
	case v == nil || newer(stored.ResourceVersion, v.PV.ResourceVersion):
		return stored
	}
	return v.PV
}

// VolumeFor returns a volume whose claimRef names the claim, nil for none.
func (c *Cache) VolumeFor(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v := c.volumeFor(claim); v != nil {
		return v.PV
	}
	return nil
}

// VolumesFor returns all volumes whose claimRef names the claim.
func (c *Cache) VolumesFor(claim *v1.PersistentVolumeClaim) (volumes []*v1.PersistentVolume) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, v := range c.byClaim[keyOf(claim)] {
		if match.RefersTo(v.PV.Spec.ClaimRef, claim) {
			volumes = append(volumes, v.PV)
		}
	}
	return volumes
}

func (c *Cache) volumeFor(claim *v1.PersistentVolumeClaim) *volume {
	for _, v := range c.byClaim[keyOf(claim)] {
		if match.RefersTo(v.PV.Spec.ClaimRef, claim) {
			return v
		}
	}
	return nil
}

// PodExists reports whether the pod exists.
func (c *Cache) PodExists(pod types.NamespacedName, uid types.UID) bool {
	if found, err := c.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && found.UID == uid {
		return true
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, expected := c.expected[uid]
	return expected
}

// ExpectPod lets PodExists report true for a pod that the informer may not have shown
// yet, until stop is called or the informer shows that the pod was deleted.
func (c *Cache) ExpectPod(pod types.NamespacedName, uid types.UID) (stop func()) {
	if c.PodExists(pod, uid) {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected[uid] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.expected, uid)
	}
}
