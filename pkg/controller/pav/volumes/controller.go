// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumes makes and deletes the dynamic volumes of PavProvisioners, by the protocol of
// external provisioners.
//
// Package rules decides; this package reads the facts and takes the step. A key of the queue is
// the name of a volume, which is derived from the UID of its claim, so that all work for a claim is
// done in sequence. Every write is a compare-and-swap on the version that the decision was made
// from, or has a name or UID that makes a second one fail.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// workers is how many volumes are reconciled concurrently.
	workers = 8

	// Annotations of claims by which the PersistentVolume controller requests a volume.
	annProvisioner     = "volume.kubernetes.io/storage-provisioner"
	annBetaProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
)

// Names of indexes of claims.
const (
	byVolume           = "volume"           // by the name of the volume that is made for them
	byVolumeName       = "volumeName"       // by spec.volumeName
	byClaimProvisioner = "claimProvisioner" // by the provisioner of their class
)

// Controller makes and deletes volumes. Only the leader runs it.
type Controller struct {
	*steps.Steps
	queue             loop.Queue // names of volumes
	provisionersQueue loop.Queue // names of provisioners

	classes storagelisters.StorageClassLister
	nodes   corelisters.NodeLister
	// written are the volumes of the informer, or newer ones that this process wrote.
	written    cache.MutationCache
	refusals   refusals
	handles    handles
	placements placements
}

// New returns a Controller; Run starts it.
func New(of *steps.Steps) (*Controller, error) {
	c := &Controller{
		Steps: of,
		queue: loop.NewQueue("pav_volumes", steps.RetryFirst, steps.RetryLast), provisionersQueue: loop.NewQueue("pav_provisioners", steps.RetryFirst, steps.RetryLast),
		classes: of.Informers.Storage().V1().StorageClasses().Lister(), nodes: of.Informers.Core().V1().Nodes().Lister(),
	}
	c.written = cache.NewIntegerResourceVersionMutationCache(klog.Background(), c.Volumes.GetStore(), c.Volumes.GetIndexer(), time.Minute, false)
	if err := errors.Join(c.index(), c.watch()); err != nil {
		return nil, fmt.Errorf("make the controller of PavVolumes: %w", err)
	}
	return c, nil
}

// index adds the indexes of claims.
func (c *Controller) index() error {
	return c.Claims.AddIndexers(cache.Indexers{
		byVolume:           steps.Indexed(func(claim *corev1.PersistentVolumeClaim) string { return rules.VolumeName(claim.UID) }),
		byVolumeName:       steps.Indexed(func(claim *corev1.PersistentVolumeClaim) string { return claim.Spec.VolumeName }),
		byClaimProvisioner: steps.Indexed(provisionerOf),
	})
}

// provisionerOf returns the provisioner from which a claim requests a volume; empty if it requests
// none.
func provisionerOf(claim *corev1.PersistentVolumeClaim) string {
	if name := claim.Annotations[annProvisioner]; name != "" {
		return name
	}
	return claim.Annotations[annBetaProvisioner]
}

// watch adds handlers that enqueue the volumes that a changed object concerns.
func (c *Controller) watch() error {
	ofClaim := func(object any) {
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		if !ok {
			return
		}
		if claim.DeletionTimestamp != nil {
			c.refusals.forget(claim.UID)
		}
		if provisionerOf(claim) != "" {
			c.queue.Add(rules.VolumeName(claim.UID))
		}
		if claim.Spec.VolumeName != "" {
			c.queue.Add(claim.Spec.VolumeName)
		}
	}
	// A provisioner that is deleted needs to know which volumes are added and deleted, not each change.
	ofPV := func(before, object any) {
		pv, ok := object.(*corev1.PersistentVolume)
		if ok && strings.HasPrefix(pv.Name, rules.VolumeName("")) {
			c.queue.Add(pv.Name)
		}
		if ok && pv.Spec.CSI != nil && before == nil {
			c.provisionersQueue.Add(pv.Spec.CSI.Driver)
			c.enqueueHandle(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
		}
	}
	ofPod := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == volumeKind {
				c.queue.Add(owner.Name)
			}
		}
	}
	ofVolume := func(before, object any) {
		if volume, ok := object.(*stowage.PavVolume); ok {
			c.queue.Add(volume.Name)
			if before == nil {
				c.provisionersQueue.Add(volume.Spec.Provisioner)
			}
			c.volumeChanged(volume)
			c.enqueueHandle(volume.Spec.Provisioner, volume.Status.Handle)
			if old, ok := before.(*stowage.PavVolume); ok {
				c.enqueueHandle(old.Spec.Provisioner, old.Status.Handle)
			}
		}
	}
	ofStaging := func(before, object any) {
		if staging, ok := object.(*stowage.PavStaging); ok && before == nil {
			c.enqueueHandle(staging.Spec.Provisioner, staging.Spec.Handle)
			c.provisionersQueue.Add(staging.Spec.Provisioner)
		}
	}
	ofClass := func(object any) {
		if class, ok := object.(*storagev1.StorageClass); ok {
			c.enqueueAll(class.Provisioner)
		}
	}
	ofRevision := func(object any) {
		if meta, ok := object.(metav1.Object); ok {
			c.provisionersQueue.Add(meta.GetLabels()[wellknown.PavProvisionerLabel])
			c.enqueueAll(meta.GetLabels()[wellknown.PavProvisionerLabel])
		}
	}
	ofDriver := func(object any) {
		if meta, ok := object.(metav1.Object); ok {
			c.provisionersQueue.Add(meta.GetName())
		}
	}
	drivers := c.Informers.Storage().V1().CSIDrivers().Informer()
	classes := c.Informers.Storage().V1().StorageClasses().Informer()
	return errors.Join(loop.WatchEach(c.Claims, ofClaim), loop.Watch(c.PVs, ofPV), loop.WatchEach(c.Pods, ofPod),
		loop.Watch(c.Volumes, ofVolume), loop.Watch(c.Stagings, ofStaging), loop.Watch(c.Provisioners, c.provisionerChanged), loop.WatchEach(c.Revisions, ofRevision),
		loop.Tally(c.Volumes, stateOf, steps.Add(metrics.AddPavVolumes)),
		loop.WatchEach(classes, ofClass), loop.WatchEach(drivers, ofDriver), c.watchNodes())
}

// volumeChanged releases the handle and the capacity of a volume that the informer has no more.
func (c *Controller) volumeChanged(volume *stowage.PavVolume) {
	if _, exists, err := c.Volumes.GetStore().GetByKey(volume.Name); err == nil && !exists {
		c.handles.release(volume)
		c.placements.release(volume)
	}
}

// provisionerChanged enqueues a provisioner, and its claims and volumes if they depend on the change.
func (c *Controller) provisionerChanged(before, object any) {
	p, ok := object.(*stowage.PavProvisioner)
	if !ok {
		return
	}
	c.provisionersQueue.Add(p.Name)
	if old, ok := before.(*stowage.PavProvisioner); !ok || !equality.Semantic.DeepEqual(provisionerFacts(old), provisionerFacts(p)) {
		c.enqueueAll(p.Name)
	}
}

// enqueueAll enqueues the claims and volumes of a provisioner. The queue has each once.
func (c *Controller) enqueueAll(name string) {
	for _, claim := range loop.List[corev1.PersistentVolumeClaim](c.Claims, byClaimProvisioner, name) {
		c.queue.Add(rules.VolumeName(claim.UID))
	}
	for _, volume := range loop.List[stowage.PavVolume](c.Volumes, steps.ByProvisioner, name) {
		c.queue.Add(volume.Name)
	}
}

// enqueueHandle enqueues the volumes that have a handle: what else has it may hold them up.
func (c *Controller) enqueueHandle(driver, handle string) {
	for _, volume := range loop.List[stowage.PavVolume](c.Volumes, steps.ByHandle, steps.HandleKey(driver, handle)) {
		c.queue.Add(volume.Name)
	}
}

// watchNodes enqueues the volumes of nodes that appear or vanish. Kubelet writes nodes too often to
// follow every change.
func (c *Controller) watchNodes() error {
	changed := func(object any) {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		if node, ok := object.(*corev1.Node); ok {
			for _, volume := range loop.List[stowage.PavVolume](c.Volumes, steps.ByNode, node.Name) {
				c.queue.Add(volume.Name)
			}
		}
	}
	_, err := c.Informers.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed})
	return err
}

// Run makes and deletes volumes until ctx ends. All informers must be synced before.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { loop.Run(ctx, c.provisionersQueue, 1, c.reconcileProvisioner) })
	loop.Run(ctx, c.queue, workers, c.reconcile)
	return nil
}
