// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capacities publishes how many bytes of volumes of a PavProvisioner fit on each node: one
// CSIStorageCapacity for each node and StorageClass with WaitForFirstConsumer (KEP-1472). It is
// what spec.storageCapacity yields for the node, less what the PavVolumes of the provisioner use
// there. No other component subtracts them; a scheduler subtracts what it has placed until the
// object says that it is counted.
package capacities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

// workers is how many nodes are published concurrently.
const workers = 8

// Names of indexes of CSIStorageCapacities.
const (
	byNode        = "provisionerNode" // by provisioner and node, see keyOf
	byProvisioner = "provisioner"
)

// Reasons of the condition CapacityPublished.
const (
	reasonPublished    = "Published"
	reasonNodesWithout = "NodesWithoutCapacity"
)

// actionPublish is the action of events.
const actionPublish = "PublishCapacity"

// Controller publishes CSIStorageCapacities. Only the leader runs it.
type Controller struct {
	*steps.Steps
	nodesQueue        loop.Queue // keys of keyOf
	provisionersQueue loop.Queue // names of provisioners

	own        informers.SharedInformerFactory
	capacities cache.SharedIndexInformer // those of this controller
	classes    storagelisters.StorageClassLister
	drivers    storagelisters.CSIDriverLister
	nodes      corelisters.NodeLister
	published  published
}

// New returns a Controller; Run starts it.
func New(of *steps.Steps) (*Controller, error) {
	storage := of.Informers.Storage().V1()
	c := &Controller{
		Steps:             of,
		nodesQueue:        loop.NewQueue("pav_capacities", steps.RetryFirst, steps.RetryLast),
		provisionersQueue: loop.NewQueue("pav_capacities_provisioners", steps.RetryFirst, steps.RetryLast),
		classes:           storage.StorageClasses().Lister(), drivers: storage.CSIDrivers().Lister(), nodes: of.Informers.Core().V1().Nodes().Lister(),
		published: published{revisions: map[string]string{}, problems: map[string]map[string]string{}},
	}
	c.own = informers.NewSharedInformerFactoryWithOptions(of.Client, 0, informers.WithNamespace(of.Namespace), informers.WithTransform(loop.WithoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = wellknown.PavProvisionerLabel }))
	c.capacities = c.own.Storage().V1().CSIStorageCapacities().Informer()
	err := c.capacities.AddIndexers(cache.Indexers{
		byNode:        steps.Indexed(keyOfCapacity),
		byProvisioner: steps.Indexed(func(a *storagev1.CSIStorageCapacity) string { return a.Labels[wellknown.PavProvisionerLabel] }),
	})
	if err = errors.Join(err, c.watch()); err != nil {
		return nil, fmt.Errorf("make the controller of storage capacities: %w", err)
	}
	return c, nil
}

// keyOf is the key of a provisioner's capacity of a node. Neither name has a slash.
func keyOf(provisioner, node string) string { return provisioner + "/" + node }

func keyOfCapacity(a *storagev1.CSIStorageCapacity) string {
	return keyOf(a.Labels[wellknown.PavProvisionerLabel], a.Annotations[wellknown.PavNodeAnnotation])
}

// watch adds handlers that enqueue the nodes and provisioners that a changed object concerns.
func (c *Controller) watch() error {
	ofVolume := func(object any) {
		if volume, ok := object.(*stowage.PavVolume); ok && volume.Spec.NodeName != "" {
			c.nodesQueue.Add(keyOf(volume.Spec.Provisioner, volume.Spec.NodeName))
		}
	}
	ofClaim := func(before, object any) { // a volume is no longer placed
		old, updated := before.(*corev1.PersistentVolumeClaim)
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		if !ok || updated && old.Annotations[rules.AnnSelectedNode] == claim.Annotations[rules.AnnSelectedNode] {
			return
		}
		if volume, exists, err := c.Volumes.GetStore().GetByKey(rules.VolumeName(claim.UID)); err == nil && exists {
			ofVolume(volume)
		}
	}
	ofNode := func(object any) {
		if node, ok := object.(*corev1.Node); ok {
			for _, name := range c.published.provisioners() {
				c.nodesQueue.Add(keyOf(name, node.Name))
			}
		}
	}
	ofClass := func(object any) {
		if class, ok := object.(*storagev1.StorageClass); ok {
			c.publishAgain(class.Provisioner)
		}
	}
	ofDriver := func(object any) {
		if driver, ok := object.(*storagev1.CSIDriver); ok {
			c.publishAgain(driver.Name)
		}
	}
	ofProvisioner := func(object any) {
		if p, ok := object.(*stowage.PavProvisioner); ok {
			c.provisionersQueue.Add(p.Name)
		}
	}
	ofRevision := func(object any) {
		if of, ok := object.(metav1.Object); ok {
			c.provisionersQueue.Add(of.GetLabels()[wellknown.PavProvisionerLabel])
		}
	}
	ofCapacity := func(object any) {
		if capacity, ok := object.(*storagev1.CSIStorageCapacity); ok {
			c.nodesQueue.Add(keyOfCapacity(capacity))
		}
	}
	storage := c.Informers.Storage().V1()
	return errors.Join(
		loop.WatchEach(c.Volumes, ofVolume), loop.Watch(c.Claims, ofClaim), loop.WatchEach(c.Provisioners, ofProvisioner),
		loop.WatchEach(c.Revisions, ofRevision), loop.WatchEach(c.capacities, ofCapacity),
		loop.WatchEach(c.Informers.Core().V1().Nodes().Informer(), ofNode),
		loop.WatchEach(storage.StorageClasses().Informer(), ofClass), loop.WatchEach(storage.CSIDrivers().Informer(), ofDriver),
	)
}

// publishAgain has all nodes of a provisioner published, if it is one.
func (c *Controller) publishAgain(name string) {
	if _, exists, err := c.Provisioners.GetStore().GetByKey(name); err == nil && exists {
		c.published.forget(name)
		c.provisionersQueue.Add(name)
	}
}

// Run publishes until ctx ends. All informers of Steps must be synced before.
func (c *Controller) Run(ctx context.Context) error {
	defer c.nodesQueue.ShutDown()
	defer c.provisionersQueue.ShutDown()
	stop, err := loop.Start(ctx, c.own)
	defer stop()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { loop.Run(ctx, c.provisionersQueue, 1, onEvents(c.reconcileProvisioner)) })
	loop.Run(ctx, c.nodesQueue, workers, onEvents(c.reconcileNode))
	return nil
}

// onEvents reconciles a key only when it is enqueued.
func onEvents(reconcile func(context.Context, string) error) func(context.Context, string) (time.Duration, error) {
	return func(ctx context.Context, key string) (time.Duration, error) { return 0, reconcile(ctx, key) }
}

// reconcileProvisioner publishes all nodes of a provisioner if its accepted spec is new, and then
// sets the condition CapacityPublished: the CSIDriver says that it tracks capacity from then on.
func (c *Controller) reconcileProvisioner(ctx context.Context, name string) error {
	p, spec, err := c.provisioner(name)
	if err != nil || spec == nil {
		return err
	}
	if spec.StorageCapacity == nil {
		c.published.remove(name)
		if err := c.setCondition(ctx, p, nil); err != nil {
			return steps.Stale(err)
		}
		return c.publish(ctx, c.publishedKeys(name))
	}
	if c.published.begin(name, p.Status.Revision) {
		keys := c.publishedKeys(name) // some may be of nodes that are gone
		nodes, err := c.nodes.List(labels.Everything())
		for _, node := range nodes {
			keys.Insert(keyOf(name, node.Name))
		}
		if err = errors.Join(err, c.publish(ctx, keys)); err != nil {
			c.published.forget(name)
			return err
		}
	}
	return steps.Stale(c.setCondition(ctx, p, c.published.condition(p)))
}

// publishedKeys returns the keys of the nodes that a provisioner has capacities of.
func (c *Controller) publishedKeys(name string) sets.Set[string] {
	keys := sets.New[string]()
	for _, capacity := range loop.List[storagev1.CSIStorageCapacity](c.capacities, byProvisioner, name) {
		keys.Insert(keyOfCapacity(capacity))
	}
	return keys
}

// publish publishes nodes.
func (c *Controller) publish(ctx context.Context, keys sets.Set[string]) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for key := range keys {
		group.Go(func() error { return c.reconcileNode(ctx, key) })
	}
	return group.Wait()
}

// provisioner returns a provisioner and its accepted spec; none if it does not exist, is being
// deleted, or was not accepted yet.
func (c *Controller) provisioner(name string) (*stowage.PavProvisioner, *stowage.PavProvisionerSpec, error) {
	object, exists, err := c.Provisioners.GetStore().GetByKey(name)
	if err != nil {
		return nil, nil, fmt.Errorf("get PavProvisioner %s from the informer: %w", name, err)
	}
	p, ok := object.(*stowage.PavProvisioner)
	if !exists || !ok || p.DeletionTimestamp != nil || p.Status.Revision == "" {
		c.published.remove(name)
		return nil, nil, nil
	}
	spec, _ := c.Spec(p.Status.Revision, "") // the event of the revision has the next step follow
	return p, spec, nil
}

// setCondition sets the condition CapacityPublished of a provisioner; nil removes it.
func (c *Controller) setCondition(ctx context.Context, p *stowage.PavProvisioner, condition *metav1.Condition) error {
	changed := p.DeepCopy()
	if condition == nil {
		meta.RemoveStatusCondition(&changed.Status.Conditions, stowage.ConditionCapacityPublished)
	} else {
		condition.LastTransitionTime = metav1.NewTime(c.Now())
		meta.SetStatusCondition(&changed.Status.Conditions, *condition)
	}
	if equality.Semantic.DeepEqual(p.Status, changed.Status) {
		return nil
	}
	if _, err := c.Clients.Provisioners.UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write the status of PavProvisioner %s: %w", p.Name, err)
	}
	if condition != nil && condition.Status == metav1.ConditionFalse && !meta.IsStatusConditionFalse(p.Status.Conditions, condition.Type) {
		c.Events.Eventf(p, nil, corev1.EventTypeWarning, condition.Reason, actionPublish, "%s", condition.Message)
	}
	return nil
}

// published is what is published of provisioners with storageCapacity. It is safe for concurrent
// use.
type published struct {
	mu sync.Mutex
	// revisions are those of which all nodes are published, by provisioner.
	revisions map[string]string
	// problems are why nodes have no capacity, by provisioner and node.
	problems map[string]map[string]string
}

// provisioners returns those with storageCapacity.
func (p *published) provisioners() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.problems {
		names = append(names, name)
	}
	return names
}

// begin notes that all nodes of a revision are being published; false if they are already.
func (p *published) begin(provisioner, revision string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.revisions[provisioner] == revision {
		return false
	}
	p.revisions[provisioner] = revision
	if p.problems[provisioner] == nil {
		p.problems[provisioner] = map[string]string{}
	}
	return true
}

// forget has the nodes published again.
func (p *published) forget(provisioner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.revisions, provisioner)
}

// remove forgets a provisioner that has no storageCapacity.
func (p *published) remove(provisioner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.revisions, provisioner)
	delete(p.problems, provisioner)
	p.measure()
}

// note notes why a node has no capacity; empty if nothing is wrong. It returns whether that changed.
func (p *published) note(provisioner, node, problem string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.problems[provisioner]
	if of == nil || of[node] == problem {
		return false
	}
	if of[node] = problem; problem == "" {
		delete(of, node)
	}
	p.measure()
	return true
}

// measure records how many nodes have no capacity. p is locked.
func (p *published) measure() {
	n := 0
	for _, problems := range p.problems {
		n += len(problems)
	}
	metrics.SetPavNodesWithoutCapacity(n)
}

// condition returns the condition CapacityPublished of a provisioner.
func (p *published) condition(of *stowage.PavProvisioner) *metav1.Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	condition := &metav1.Condition{
		Type: stowage.ConditionCapacityPublished, Status: metav1.ConditionTrue, Reason: reasonPublished, ObservedGeneration: of.Generation,
	}
	if problems := p.problems[of.Name]; len(problems) > 0 {
		first := ""
		for node := range problems {
			if first == "" || node < first {
				first = node
			}
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, reasonNodesWithout
		condition.Message = stowage.FitMessage(fmt.Sprintf("%d nodes have no capacity, among them %s: %s", len(problems), first, problems[first]))
	}
	return condition
}

// splitKey returns the parts of a key of keyOf.
func splitKey(key string) (provisioner, node string) {
	provisioner, node, _ = strings.Cut(key, "/")
	return provisioner, node
}
