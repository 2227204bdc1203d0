// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
	nodeutil "k8s.io/component-helpers/node/util"

	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// Names of the indexes of claims that wait, and of pods.
const (
	byClass = "stowage-bind-now-class"
	byClaim = "stowage-bind-now-claim"
)

// runDelay lets events that belong together cause one run.
const runDelay = 10 * time.Millisecond

// watch adds handlers that enqueue the classes and claims that an event may concern.
func (c *Controller) watch() error {
	core, storage := c.Informers.Core().V1(), c.Informers.Storage().V1()
	return errors.Join(
		c.claims.AddIndexers(cache.Indexers{byClass: func(object any) ([]string, error) {
			if claim, ok := object.(*corev1.PersistentVolumeClaim); ok && rules.Waits(claim, c.Annotations) {
				return []string{match.ClaimClass(claim)}, nil
			}
			return nil, nil
		}}),
		c.pods.AddIndexers(cache.Indexers{byClaim: func(object any) ([]string, error) {
			if pod, ok := object.(*corev1.Pod); ok && rules.Scheduling(pod) {
				return claims.Keys(pod), nil
			}
			return nil, nil
		}}),
		loop.Watch(c.claims, c.claimChanged),
		loop.Watch(c.pods, c.podChanged),
		loop.Watch(core.PersistentVolumes().Informer(), c.volumeChanged),
		loop.Watch(core.Nodes().Informer(), c.nodeChanged),
		loop.Watch(storage.StorageClasses().Informer(), func(_, object any) {
			if class, ok := object.(*storagev1.StorageClass); ok {
				c.enqueueClass(class.Name)
			}
		}),
		loop.Watch(storage.CSIStorageCapacities().Informer(), func(_, object any) {
			if capacity, ok := object.(*storagev1.CSIStorageCapacity); ok {
				c.enqueueClass(capacity.StorageClassName)
			}
		}),
		loop.Watch(storage.CSINodes().Informer(), func(_, _ any) { c.enqueueWaiting() }),
	)
}

// enqueueClass requests a run for the class.
func (c *Controller) enqueueClass(name string) {
	c.mu.Lock()
	if h := c.runs[name]; h != nil {
		c.countEvent(h)
	}
	c.mu.Unlock()
	c.classes.AddAfter(name, runDelay)
}

// enqueueWaiting enqueues all classes with claims that wait.
func (c *Controller) enqueueWaiting() {
	c.mu.Lock()
	waiting := slices.Collect(maps.Keys(c.runs))
	c.mu.Unlock()
	for _, name := range waiting {
		c.enqueueClass(name)
	}
}

// enqueueBinding enqueues the claim if it is being bound. It reports whether it is.
func (c *Controller) enqueueBinding(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.state[key]; s == nil || s.plan == nil {
		return false
	}
	c.binding.Add(key)
	return true
}

func (c *Controller) claimChanged(before, object any) {
	claim, ok := object.(*corev1.PersistentVolumeClaim)
	if !ok {
		return
	}
	key := keyOf(claim)
	waits := c.observe(key)
	c.enqueueBinding(key)
	old, updated := before.(*corev1.PersistentVolumeClaim)
	if waits || rules.Waits(claim, c.Annotations) || updated && rules.Waits(old, c.Annotations) {
		c.enqueueClass(match.ClaimClass(claim))
	}
}

// podChanged enqueues the classes of the pod's claims: the scheduler may bind them from now on,
// or no longer.
func (c *Controller) podChanged(before, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	if old, updated := before.(*corev1.Pod); updated && rules.Scheduling(old) == rules.Scheduling(pod) {
		return
	}
	for _, key := range claims.Keys(pod) {
		c.enqueueClaim(key)
	}
}

// enqueueClaim enqueues a claim that is being bound, or the class of one that waits.
func (c *Controller) enqueueClaim(key string) {
	if c.enqueueBinding(key) {
		return
	}
	if claim := c.waitingClaim(key); claim != nil {
		c.enqueueClass(match.ClaimClass(claim))
	}
}

func (c *Controller) volumeChanged(before, object any) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return
	}
	c.volumes.ObserveVolume(volume.Name) // its handler may not have been called yet
	if ref := volume.Spec.ClaimRef; ref != nil {
		c.enqueueClaim(ref.Namespace + "/" + ref.Name)
		return
	}
	if match.Free(volume) {
		c.enqueueClass(match.VolumeClass(volume))
	}
	// The claim is no longer bound to a volume that does not fit it.
	if old, updated := before.(*corev1.PersistentVolume); updated && old.Spec.ClaimRef != nil {
		c.enqueueClaim(old.Spec.ClaimRef.Namespace + "/" + old.Spec.ClaimRef.Name)
	}
}

func (c *Controller) nodeChanged(before, object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	old, updated := before.(*corev1.Node)
	same := updated && old.UID == node.UID
	if same && old.Spec.Unschedulable == node.Spec.Unschedulable && readiness(old) == readiness(node) && maps.Equal(old.Labels, node.Labels) {
		return
	}
	c.enqueueWaiting()
	if same {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.onNode[node.Name] {
		c.binding.Add(key)
	}
}

func readiness(node *corev1.Node) corev1.ConditionStatus {
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		return ready.Status
	}
	return ""
}

func keyOf(claim *corev1.PersistentVolumeClaim) string { return claim.Namespace + "/" + claim.Name }
