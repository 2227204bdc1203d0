// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
)

// waitLimit bounds one wait, so that a long run ends with an error.
const waitLimit = 10 * time.Minute

// observed records when a client first saw each volume in each phase. Safe for
// concurrent use.
type observed struct {
	changes await.Changes

	mu      sync.Mutex
	volumes map[types.UID]volume
}

// volume is what was observed of one.
type volume struct {
	*corev1.PersistentVolume // the newest; not to be changed
	since                    map[corev1.PersistentVolumePhase]time.Time
}

// watch starts to record, until stop is called.
func (o *observed) watch(ctx context.Context, client kubernetes.Interface) (stop func() error, err error) {
	o.volumes = map[types.UID]volume{}
	factory := informers.NewSharedInformerFactory(client, 0)
	if _, err := factory.Core().V1().PersistentVolumes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.observe(object.(*corev1.PersistentVolume)) },
		UpdateFunc: func(_, object any) { o.observe(object.(*corev1.PersistentVolume)) },
	}); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	factory.Start(ended)
	factory.WaitForCacheSync(ctx.Done())
	return func() error { close(ended); factory.Shutdown(); return nil }, context.Cause(ctx)
}

func (o *observed) observe(pv *corev1.PersistentVolume) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	since := maps.Clone(o.volumes[pv.UID].since)
	if since == nil {
		since = map[corev1.PersistentVolumePhase]time.Time{}
	}
	if since[pv.Status.Phase].IsZero() {
		since[pv.Status.Phase] = now
	}
	o.volumes[pv.UID] = volume{pv, since}
	o.changes.Notify()
}

// wait waits until is accepts a volume, and returns it. A volume that was deleted is as it was
// before.
func (o *observed) wait(ctx context.Context, what string, is func(volume) bool) (found volume, err error) {
	err = o.changes.Wait(ctx, waitLimit, what, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, v := range o.volumes {
			if is(v) {
				found = v
				return true
			}
		}
		return false
	})
	return found, err
}

// available waits until a path has an Available volume other than one, and returns when it was
// seen.
func (o *observed) available(ctx context.Context, path string, other types.UID) (time.Time, error) {
	v, err := o.wait(ctx, path+" to be Available", func(v volume) bool {
		return v.UID != other && v.Spec.Local != nil && localpv.PathOf(v.PersistentVolume) == path &&
			v.DeletionTimestamp == nil && v.Status.Phase == corev1.VolumeAvailable
	})
	return v.since[corev1.VolumeAvailable], err
}

// claim has a claim, with the name of a kind of disk, bound by the PersistentVolume controller to
// such a disk, and returns its volume.
func (n *node) claim(ctx context.Context, kind string) (volume, error) {
	object := builders.MakePVC(kind).Namespace(n.namespace).Class(kind).Request("1Mi").Obj()
	if kind == blockClass {
		object.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	claim, err := n.cluster.Client().CoreV1().PersistentVolumeClaims(n.namespace).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return volume{}, fmt.Errorf("create a claim: %w", err)
	}
	return n.volumes.wait(ctx, "a volume to be bound to a claim of "+kind, func(v volume) bool {
		return v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == claim.UID && !v.since[corev1.VolumeBound].IsZero()
	})
}

// release deletes the claim of a volume, and returns how many seconds passed from Released until
// the volume published at the same path afterwards was Available.
func (n *node) release(ctx context.Context, bound volume) (float64, error) {
	if err := n.cluster.Client().CoreV1().PersistentVolumeClaims(n.namespace).Delete(ctx, bound.Spec.ClaimRef.Name, metav1.DeleteOptions{}); err != nil {
		return 0, fmt.Errorf("delete a claim: %w", err)
	}
	path := localpv.PathOf(bound.PersistentVolume)
	released, err := n.volumes.wait(ctx, path+" to be Released", func(v volume) bool {
		return v.UID == bound.UID && !v.since[corev1.VolumeReleased].IsZero()
	})
	if err != nil {
		return 0, err
	}
	available, err := n.volumes.available(ctx, path, bound.UID)
	return available.Sub(released.since[corev1.VolumeReleased]).Seconds(), err
}
