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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/loop"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/pavclient"
)

const (
	// workers is how many volumes are reconciled concurrently.
	workers = 8
	// A failed reconciliation is retried after retryFirst, then with a growing delay.
	retryFirst, retryLast = 100 * time.Millisecond, 2 * time.Minute

	// Annotations of claims by which the PersistentVolume controller requests a volume.
	annProvisioner     = "volume.kubernetes.io/storage-provisioner"
	annBetaProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
)

// Names of indexes.
const (
	byVolume      = "volume"       // claims, by the name of the volume that is made for them
	byVolumeName  = "volumeName"   // claims, by spec.volumeName
	byHandle      = "driverHandle" // PersistentVolumes and PavVolumes, by driver and handle
	byProvisioner = "provisioner"  // claims, PavVolumes and PersistentVolumes, by provisioner
	byNode        = "node"         // PavVolumes, by spec.nodeName
	byOwner       = "owner"        // helper pods, by the name of their PavVolume
)

// Config configures a Controller. All fields are required.
type Config struct {
	// Client and Clients may do what manifests/controller/pav allows.
	Client  kubernetes.Interface
	Clients *pavclient.Clients
	// Informers are not started yet.
	Informers informers.SharedInformerFactory
	Events    events.EventRecorder
	// Namespace is that of ControllerRevisions, and of helper pods whose templates name none.
	Namespace string
	// ReporterImage is the image of the reporter.
	ReporterImage string
}

// Controller makes and deletes volumes. Only the leader runs it.
type Controller struct {
	Config
	queue             loop.Queue // names of volumes
	provisionersQueue loop.Queue // names of provisioners

	own          informers.SharedInformerFactory // helper pods
	revisions    informers.SharedInformerFactory // ControllerRevisions of provisioners
	claims       cache.SharedIndexInformer
	pvs          cache.SharedIndexInformer
	pods         cache.SharedIndexInformer
	revision     cache.SharedIndexInformer
	volumes      cache.SharedIndexInformer
	provisioners cache.SharedIndexInformer
	classes      storagelisters.StorageClassLister
	nodes        corelisters.NodeLister
	// written are the volumes of the informer, or newer ones that this process wrote.
	written  cache.MutationCache
	refusals refusals
	handles  handles
	now      func() time.Time
}

// New returns a Controller; Run starts it.
func New(config Config) (*Controller, error) {
	core, storage := config.Informers.Core().V1(), config.Informers.Storage().V1()
	c := &Controller{
		Config: config,
		queue:  loop.NewQueue("pav_volumes", retryFirst, retryLast), provisionersQueue: loop.NewQueue("pav_provisioners", retryFirst, retryLast),
		claims: core.PersistentVolumeClaims().Informer(), pvs: core.PersistentVolumes().Informer(),
		classes: storage.StorageClasses().Lister(), nodes: core.Nodes().Lister(),
		now: time.Now,
	}
	c.own = informers.NewSharedInformerFactoryWithOptions(config.Client, 0, informers.WithTransform(loop.WithoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = wellknown.PavOwnerLabel }))
	c.revisions = informers.NewSharedInformerFactoryWithOptions(config.Client, 0, informers.WithNamespace(config.Namespace), informers.WithTransform(loop.WithoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = wellknown.PavProvisionerLabel }))
	c.pods, c.revision = c.own.Core().V1().Pods().Informer(), c.revisions.Apps().V1().ControllerRevisions().Informer()
	var volumesErr, provisionersErr error
	c.volumes, volumesErr = pavclient.NewInformer(config.Clients.Volumes, &stowage.PavVolume{}, fields.Everything())
	c.provisioners, provisionersErr = pavclient.NewInformer(config.Clients.Provisioners, &stowage.PavProvisioner{}, fields.Everything())
	if err := errors.Join(volumesErr, provisionersErr); err != nil {
		return nil, err
	}
	c.written = cache.NewIntegerResourceVersionMutationCache(klog.Background(), c.volumes.GetStore(), c.volumes.GetIndexer(), time.Minute, false)
	if err := errors.Join(c.index(), c.watch()); err != nil {
		return nil, fmt.Errorf("make the controller of PaV volumes: %w", err)
	}
	return c, nil
}

// index adds the indexes.
func (c *Controller) index() error {
	return errors.Join(
		c.claims.AddIndexers(cache.Indexers{
			byVolume:      indexed(func(claim *corev1.PersistentVolumeClaim) string { return rules.VolumeName(claim.UID) }),
			byVolumeName:  indexed(func(claim *corev1.PersistentVolumeClaim) string { return claim.Spec.VolumeName }),
			byProvisioner: indexed(provisionerOf),
		}),
		c.pvs.AddIndexers(cache.Indexers{
			byHandle: indexed(func(pv *corev1.PersistentVolume) string {
				if pv.Spec.CSI == nil {
					return ""
				}
				return handleKey(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
			}),
			byProvisioner: indexed(func(pv *corev1.PersistentVolume) string {
				if pv.Spec.CSI == nil {
					return ""
				}
				return pv.Spec.CSI.Driver
			}),
		}),
		c.pods.AddIndexers(cache.Indexers{byOwner: indexed(func(pod *corev1.Pod) string {
			if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == volumeKind {
				return owner.Name
			}
			return ""
		})}),
		c.volumes.AddIndexers(cache.Indexers{
			byHandle:      indexed(func(v *stowage.PavVolume) string { return handleKey(v.Spec.Provisioner, v.Status.Handle) }),
			byProvisioner: indexed(func(v *stowage.PavVolume) string { return v.Spec.Provisioner }),
			byNode:        indexed(func(v *stowage.PavVolume) string { return v.Spec.NodeName }),
		}),
	)
}

// indexed indexes objects of a type by a key; objects with an empty key are not in the index.
func indexed[T any](key func(*T) string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		if typed, ok := object.(*T); ok && key(typed) != "" {
			return []string{key(typed)}, nil
		}
		return nil, nil
	}
}

func handleKey(driver, handle string) string {
	if handle == "" {
		return ""
	}
	return driver + "^" + handle
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
	return errors.Join(loop.WatchEach(c.claims, ofClaim), loop.Watch(c.pvs, ofPV), loop.WatchEach(c.pods, ofPod),
		loop.Watch(c.volumes, ofVolume), loop.Watch(c.provisioners, c.provisionerChanged), loop.WatchEach(c.revision, ofRevision),
		loop.WatchEach(classes, ofClass), loop.WatchEach(drivers, ofDriver), c.watchNodes())
}

// volumeChanged releases the handle of a volume that the informer has no more.
func (c *Controller) volumeChanged(volume *stowage.PavVolume) {
	if _, exists, err := c.volumes.GetStore().GetByKey(volume.Name); err == nil && !exists {
		c.handles.release(volume)
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
	for _, claim := range loop.List[corev1.PersistentVolumeClaim](c.claims, byProvisioner, name) {
		c.queue.Add(rules.VolumeName(claim.UID))
	}
	for _, volume := range loop.List[stowage.PavVolume](c.volumes, byProvisioner, name) {
		c.queue.Add(volume.Name)
	}
}

// enqueueHandle enqueues the volumes that have a handle: what else has it may hold them up.
func (c *Controller) enqueueHandle(driver, handle string) {
	for _, volume := range loop.List[stowage.PavVolume](c.volumes, byHandle, handleKey(driver, handle)) {
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
			for _, volume := range loop.List[stowage.PavVolume](c.volumes, byNode, node.Name) {
				c.queue.Add(volume.Name)
			}
		}
	}
	_, err := c.Informers.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed})
	return err
}

// Run makes and deletes volumes until ctx ends. The shared informers must be synced before.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	defer c.provisionersQueue.ShutDown()
	informing, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, informer := range []cache.SharedIndexInformer{c.volumes, c.provisioners} {
		running.Go(func() { informer.RunWithContext(informing) })
	}
	stop, err := loop.Start(ctx, c.own, c.revisions)
	defer stop()
	if err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.volumes.HasSynced, c.provisioners.HasSynced) {
		return fmt.Errorf("list PavProvisioners and PavVolumes: %w", context.Cause(ctx))
	}
	running.Go(func() { loop.Run(ctx, c.provisionersQueue, 1, c.reconcileProvisioner) })
	loop.Run(ctx, c.queue, workers, c.reconcile)
	return nil
}
