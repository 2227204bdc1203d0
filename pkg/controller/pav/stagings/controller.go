// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stagings stages the volumes of PavProvisioners on nodes and unstages them. A node service
// creates a PavStaging for kubelet's NodeStageVolume and deletes it for NodeUnstageVolume.
//
// Package rules decides; this package reads the facts and takes the step. A key of the queue is the
// name of a PavStaging. Every write is a compare-and-swap on the version that the decision was made
// from, or has a name or UID that makes a second one fail.
package stagings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/keymutex"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// workers is how many stagings are reconciled concurrently.
	workers = 16

	stagingKind = "PavStaging"
)

// Names of indexes.
const (
	byUse       = "pavUse"              // all pods, by useKey
	byNamespace = "pavStagingNamespace" // helper pods that stage a volume, by namespace
)

// Controller stages and unstages volumes. Only the leader runs it.
type Controller struct {
	*steps.Steps
	queue   loop.Queue // names of PavStagings
	budgets loop.Queue // namespaces of staging pods

	nodes corelisters.NodeLister
	users cache.SharedIndexInformer // all pods
	// disruptions are the PodDisruptionBudgets of staging pods, from the factory own.
	disruptions cache.SharedIndexInformer
	own         informers.SharedInformerFactory
	// written are the stagings of the informer, or newer ones that this process wrote.
	written cache.MutationCache
	// beginning is locked, by driver and handle, from the check that no other node has a volume
	// until an attempt to stage it is written.
	beginning keymutex.KeyMutex
}

// New returns a Controller; Run starts it.
func New(of *steps.Steps) (*Controller, error) {
	c := &Controller{
		Steps: of,
		queue: loop.NewQueue("pav_stagings", steps.RetryFirst, steps.RetryLast), budgets: loop.NewQueue("pav_budgets", steps.RetryFirst, steps.RetryLast),
		nodes: of.Informers.Core().V1().Nodes().Lister(), users: of.Informers.Core().V1().Pods().Informer(),
		beginning: keymutex.NewHashed(workers),
	}
	c.own = informers.NewSharedInformerFactoryWithOptions(of.Client, 0, informers.WithTransform(loop.WithoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, budgetName).String()
		}))
	c.disruptions = c.own.Policy().V1().PodDisruptionBudgets().Informer()
	c.written = cache.NewIntegerResourceVersionMutationCache(klog.Background(), c.Stagings.GetStore(), c.Stagings.GetIndexer(), time.Minute, false)
	if err := errors.Join(c.index(), c.watch()); err != nil {
		return nil, fmt.Errorf("make the controller of PavStagings: %w", err)
	}
	return c, nil
}

// useKey is the key of byUse.
func useKey(namespace, claim, node string) string { return namespace + "/" + claim + "/" + node }

func (c *Controller) index() error {
	uses := func(object any) (keys []string, _ error) {
		if pod, ok := object.(*corev1.Pod); ok {
			for _, claim := range rules.Uses(pod) {
				keys = append(keys, useKey(claim.Namespace, claim.Name, pod.Spec.NodeName))
			}
		}
		return keys, nil
	}
	return errors.Join(
		c.users.AddIndexers(cache.Indexers{byUse: uses}),
		c.Pods.AddIndexers(cache.Indexers{byNamespace: steps.Indexed(func(pod *corev1.Pod) string {
			if !isStaging(pod) {
				return ""
			}
			return pod.Namespace
		})}),
	)
}

// watch adds handlers that enqueue the stagings that a changed object concerns.
func (c *Controller) watch() error {
	ofStaging := func(before, object any) {
		staging, ok := object.(*stowage.PavStaging)
		if !ok {
			return
		}
		c.queue.Add(staging.Name)
		if old, ok := before.(*stowage.PavStaging); !ok || rules.Holds(old) != rules.Holds(staging) {
			c.enqueueWaiting(staging)
		}
	}
	ofPod := func(object any) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == stagingKind {
			c.queue.Add(owner.Name)
		}
		if isStaging(pod) {
			c.budgets.Add(pod.Namespace)
		}
	}
	ofPV := func(object any) {
		if pv, ok := object.(*corev1.PersistentVolume); ok {
			c.enqueueVolume(pv)
		}
	}
	ofClaim := func(object any) {
		if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
			c.enqueueVolume(c.volumeOf(claim))
		}
	}
	ofVolume := func(before, object any) {
		volume, ok := object.(*stowage.PavVolume)
		if !ok {
			return
		}
		if old, ok := before.(*stowage.PavVolume); !ok || old.Status.Phase != volume.Status.Phase || old.Spec.UseRevision != volume.Spec.UseRevision {
			c.enqueueHandle(volume.Spec.Provisioner, volume.Status.Handle)
		}
	}
	ofRevision := func(object any) {
		if meta, ok := object.(metav1.Object); ok {
			c.enqueueBy(steps.ByProvisioner, meta.GetLabels()[wellknown.PavProvisionerLabel])
		}
	}
	ofBudget := func(object any) {
		if budget, ok := object.(*policyv1.PodDisruptionBudget); ok {
			c.budgets.Add(budget.Namespace)
		}
	}
	nodes := c.Informers.Core().V1().Nodes().Informer()
	return errors.Join(loop.Watch(c.Stagings, ofStaging), loop.WatchEach(c.Pods, ofPod), loop.WatchEach(c.PVs, ofPV), loop.WatchEach(c.Claims, ofClaim),
		loop.Watch(c.Volumes, ofVolume), loop.WatchEach(c.Revisions, ofRevision), loop.Watch(c.Provisioners, c.provisionerChanged),
		loop.Tally(c.Stagings, stateOf, steps.Add(metrics.AddPavStagings)),
		loop.Watch(c.users, c.userChanged), loop.Watch(nodes, c.nodeChanged), loop.WatchEach(c.disruptions, ofBudget))
}

// provisionerChanged enqueues the stagings of a provisioner whose decisions depend on the change.
func (c *Controller) provisionerChanged(before, object any) {
	p, ok := object.(*stowage.PavProvisioner)
	if !ok {
		return
	}
	if old, ok := before.(*stowage.PavProvisioner); !ok || !equality.Semantic.DeepEqual(provisionerFacts(old), provisionerFacts(p)) {
		c.enqueueBy(steps.ByProvisioner, p.Name)
	}
}

// userChanged enqueues the stagings of the claims that a pod begins or ends to use on its node.
func (c *Controller) userChanged(before, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	uses := rules.Uses(pod)
	if old, ok := before.(*corev1.Pod); ok && slices.Equal(rules.Uses(old), uses) {
		return
	} else if ok {
		uses = append(uses, rules.Uses(old)...)
	}
	for _, used := range uses {
		object, exists, err := c.Claims.GetStore().GetByKey(used.String())
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		if err != nil || !exists || !ok {
			continue
		}
		if pv := c.volumeOf(claim); pv != nil && pv.Spec.CSI != nil {
			c.enqueueName(stowage.PavStagingName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle, pod.Spec.NodeName))
		}
	}
}

// nodeChanged enqueues the stagings of nodes that appear, vanish, or are declared lost. Kubelet writes
// nodes too often to follow every change.
func (c *Controller) nodeChanged(before, object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	if old, ok := before.(*corev1.Node); !ok || rules.OutOfService(old) != rules.OutOfService(node) {
		c.enqueueBy(steps.ByNode, node.Name)
	}
}

func (c *Controller) enqueueBy(index, key string) {
	for _, staging := range loop.List[stowage.PavStaging](c.Stagings, index, key) {
		c.queue.Add(staging.Name)
	}
}

func (c *Controller) enqueueHandle(driver, handle string) {
	c.enqueueBy(steps.ByHandle, steps.HandleKey(driver, handle))
}

// enqueueVolume enqueues the stagings of a PersistentVolume, which may be nil.
func (c *Controller) enqueueVolume(pv *corev1.PersistentVolume) {
	if pv != nil && pv.Spec.CSI != nil {
		c.enqueueHandle(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
	}
}

// enqueueWaiting enqueues the other stagings of a volume that one node can use at a time.
func (c *Controller) enqueueWaiting(staging *stowage.PavStaging) {
	driver, handle := staging.Spec.Provisioner, staging.Spec.Handle
	if slices.ContainsFunc(loop.List[corev1.PersistentVolume](c.PVs, steps.ByHandle, steps.HandleKey(driver, handle)), rules.OneNode) {
		c.enqueueHandle(driver, handle)
	}
}

// enqueueName enqueues a staging if it exists.
func (c *Controller) enqueueName(name string) {
	if _, exists, err := c.Stagings.GetStore().GetByKey(name); err == nil && exists {
		c.queue.Add(name)
	}
}

// volumeOf returns the PersistentVolume that a claim names; nil if the informer has none.
func (c *Controller) volumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	object, _, err := c.PVs.GetStore().GetByKey(claim.Spec.VolumeName)
	pv, ok := object.(*corev1.PersistentVolume)
	if err != nil || !ok {
		return nil
	}
	return pv
}

// Run stages and unstages volumes until ctx ends. All informers of Steps must be synced before.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	defer c.budgets.ShutDown()
	stop, err := loop.Start(ctx, c.own)
	defer stop()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { loop.Run(ctx, c.budgets, 1, c.reconcileBudget) })
	loop.Run(ctx, c.queue, workers, c.reconcile)
	return nil
}
