// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// watch adds handlers that enqueue the claims and volumes that an event may concern.
func (c *Controller) watch() error {
	return errors.Join(
		c.claimInformer.AddIndexers(claimIndexes()), c.podInformer.AddIndexers(podIndexes()),
		loop.Watch(c.Informers.Core().V1().PersistentVolumes().Informer(), func(before, object any) {
			old, _ := before.(*v1.PersistentVolume)
			if volume, ok := object.(*v1.PersistentVolume); ok {
				c.volumeChanged(old, volume)
			}
		}),
		loop.Watch(c.claimInformer, func(before, object any) {
			old, _ := before.(*v1.PersistentVolumeClaim)
			if claim, ok := object.(*v1.PersistentVolumeClaim); ok {
				c.claimChanged(old, claim)
			}
		}),
		loop.WatchEach(c.podInformer, func(object any) {
			if pod, ok := object.(*v1.Pod); ok {
				c.podChanged(pod)
			}
		}),
		loop.WatchEach(c.classInformer, func(object any) {
			if class, ok := object.(*storagev1.StorageClass); ok {
				c.classChanged(class)
			}
		}),
	)
}

// volumeChanged enqueues the volume, and the claims that it refers to or that name it.
func (c *Controller) volumeChanged(before, volume *v1.PersistentVolume) {
	c.Cache.ObserveVolume(volume.Name) // it may be notified later
	c.volumes.Add(volume.Name)
	c.matcher.changed(c.Cache.Volume(volume.Name))
	if ref := volume.Spec.ClaimRef; ref != nil {
		c.claims.Add(ref.Namespace + "/" + ref.Name)
	}
	c.enqueueClaims(byVolume, volume.Name)
	if before == nil {
		return
	}
	c.checkWriter(before, volume)
	if ref := before.Spec.ClaimRef; ref != nil {
		c.claims.Add(ref.Namespace + "/" + ref.Name)
	}
}

// claimChanged enqueues the claim, and volumes of which it decides the phase.
func (c *Controller) claimChanged(before, claim *v1.PersistentVolumeClaim) {
	c.claims.Add(keyOf(claim))
	if before != nil && before.UID == claim.UID && before.Spec.VolumeName == claim.Spec.VolumeName && plan.IsBound(before) == plan.IsBound(claim) {
		return
	}
	for _, object := range []*v1.PersistentVolumeClaim{before, claim} {
		if object == nil {
			continue
		}
		if object.Spec.VolumeName != "" {
			c.volumes.Add(object.Spec.VolumeName)
		}
		for _, volume := range c.Cache.VolumesFor(object) {
			c.volumes.Add(volume.Name)
		}
	}
}

// podChanged enqueues the claims of a pod that are not bound: their events name the pod.
func (c *Controller) podChanged(pod *v1.Pod) {
	for use := range claims.Used(pod) {
		if claim := c.Cache.Claim(pod.Namespace, use.Name); claim != nil && !plan.IsBound(claim) {
			c.claims.Add(keyOf(claim))
		}
	}
}

// classChanged enqueues the claims that wait for the class, or for a default class.
func (c *Controller) classChanged(class *storagev1.StorageClass) {
	c.enqueueClaims(byClass, class.Name)
	if claims.IsDefault(class) {
		c.enqueueClaims(byClass, noClass)
	}
}

func (c *Controller) enqueueClaims(index, key string) {
	for _, claim := range loop.List[v1.PersistentVolumeClaim](c.claimInformer, index, key) {
		c.claims.Add(keyOf(claim))
	}
}
