// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// workers act for nodes at the same time.
	workers = 4
	// A node that cannot be dealt with is tried again after retryFirst, then ever later.
	retryFirst, retryLast = time.Second, 2 * time.Minute
	// abandonedFor is how long a Job runs on that nobody asks for any more. An agent that
	// is started anew asks again within that time.
	abandonedFor = 2 * time.Minute

	byVolume, byNode = "volume", "node"
)

// Reports writes LocalDiskReports.
type Reports interface {
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*stowage.LocalDiskReport, error)
}

// Config is what a Controller needs.
type Config struct {
	// Client may do what manifests/controller/cleaning-jobs.yaml allows.
	Client  kubernetes.Interface
	Reports Reports
	// ReportInformer has the reports of all nodes. Who makes the Controller runs it.
	ReportInformer cache.SharedIndexInformer
	// Namespace is that of the agents, and of the Jobs.
	Namespace string
	// ConfigMap is the agents' configuration, DaemonSet is the agents'.
	ConfigMap, DaemonSet string
	// Image is what Jobs run; empty is the image of the agents.
	Image string
}

// Controller makes cleaning Jobs. One runs at a time in a cluster; that two do so for a
// moment does no harm.
type Controller struct {
	Config
	queue      workqueue.TypedRateLimitingInterface[string] // names of nodes
	own        informers.SharedInformerFactory              // Jobs and their pods
	jobs, pods cache.SharedIndexInformer
	settings   informers.SharedInformerFactory // the agents' configuration
	agents     informers.SharedInformerFactory // the agents' DaemonSet

	mu sync.Mutex
	// abandoned says since when nobody has asked for a Job, by node.
	abandoned map[string]map[types.UID]time.Time
}

// New makes a Controller. It does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Client == nil || config.Reports == nil || config.ReportInformer == nil || config.Namespace == "" || config.ConfigMap == "" {
		return nil, errors.New("make the controller of cleaning Jobs: there is no client, no informer of reports, no namespace or no name of a ConfigMap")
	}
	c := &Controller{Config: config, abandoned: map[string]map[types.UID]time.Time{}}
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "cleaning_jobs"})
	c.own = c.factory(func(o *metav1.ListOptions) { o.LabelSelector = wellknown.CleaningLabel })
	c.settings = c.factory(named(config.ConfigMap))
	c.agents = c.factory(named(config.DaemonSet))
	c.jobs, c.pods = c.own.Batch().V1().Jobs().Informer(), c.own.Core().V1().Pods().Informer()
	index := cache.Indexers{byVolume: label(wellknown.CleaningLabel), byNode: label(wellknown.NodeLabel)}
	if err := errors.Join(c.jobs.AddIndexers(index), c.pods.AddIndexers(index), c.listen()); err != nil {
		return nil, fmt.Errorf("make the controller of cleaning Jobs: %w", err)
	}
	metrics.RegisterController()
	return c, nil
}

func (c *Controller) factory(tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithNamespace(c.Namespace),
		informers.WithTweakListOptions(tweak), informers.WithTransform(withoutManagedFields))
}

func named(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + name }
}

// label indexes by a label.
func label(key string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		meta, ok := object.(metav1.Object)
		if !ok || meta.GetLabels()[key] == "" {
			return nil, nil
		}
		return []string{meta.GetLabels()[key]}, nil
	}
}

func withoutManagedFields(object any) (any, error) {
	if meta, ok := object.(metav1.Object); ok {
		meta.SetManagedFields(nil)
	}
	return object, nil
}

// listen has a node looked at when something of it changes.
func (c *Controller) listen() error {
	_, err := c.ReportInformer.AddEventHandler(handler(func(object any) {
		if report, ok := object.(*stowage.LocalDiskReport); ok && concerns(report) {
			c.queue.Add(report.Spec.NodeName)
		}
	}))
	ofNode := handler(func(object any) {
		if job, ok := object.(*batchv1.Job); ok && job.Annotations[wellknown.NodeNameAnnotation] != "" {
			c.queue.Add(job.Annotations[wellknown.NodeNameAnnotation])
		} else if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			c.queue.Add(pod.Spec.NodeName)
		}
	})
	all := handler(func(any) { c.everyNode() })
	_, err1 := c.jobs.AddEventHandler(ofNode)
	_, err5 := c.jobs.AddEventHandler(c.countJobs())
	_, err2 := c.pods.AddEventHandler(ofNode)
	_, err3 := c.settings.Core().V1().ConfigMaps().Informer().AddEventHandler(all)
	_, err4 := c.agents.Apps().V1().DaemonSets().Informer().AddEventHandler(all)
	return errors.Join(err, err1, err2, err3, err4, err5)
}

// handler calls changed with an object whenever there is news of it.
func handler(changed func(object any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(before, now any) { changed(before); changed(now) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			changed(object)
		},
	}
}

// concerns says whether somebody asks or is answered in a report.
func concerns(report *stowage.LocalDiskReport) bool {
	if len(report.Status.Jobs) > 0 {
		return true
	}
	for i := range report.Status.Entries {
		if cleaning := report.Status.Entries[i].Cleaning; cleaning != nil && cleaning.Request != nil {
			return true
		}
	}
	return false
}

// everyNode has every node looked at that waits for something.
func (c *Controller) everyNode() {
	for _, object := range c.ReportInformer.GetStore().List() {
		if report, ok := object.(*stowage.LocalDiskReport); ok && concerns(report) {
			c.queue.Add(report.Spec.NodeName)
		}
	}
}

// Run makes Jobs until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var group wait.Group
	ctx, cancel := context.WithCancel(ctx)
	defer func() { // in this order: nothing is queued by what has ended
		cancel()
		for _, factory := range c.factories() {
			factory.Shutdown()
		}
		c.queue.ShutDown()
		group.Wait()
	}()
	for _, factory := range c.factories() {
		factory.StartWithContext(ctx)
	}
	for _, factory := range c.factories() {
		for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return fmt.Errorf("list %s: %w", kind, context.Cause(ctx))
			}
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.ReportInformer.HasSynced) {
		return fmt.Errorf("list reports: %w", context.Cause(ctx))
	}
	for range workers {
		group.StartWithContext(ctx, c.work)
	}
	<-ctx.Done()
	return nil
}

func (c *Controller) factories() []informers.SharedInformerFactory {
	return []informers.SharedInformerFactory{c.own, c.settings, c.agents}
}

// work deals with one node after the other.
func (c *Controller) work(ctx context.Context) {
	for {
		node, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		err := c.reconcile(ctx, node)
		switch {
		case err == nil:
			c.queue.Forget(node)
		case ctx.Err() == nil:
			klog.FromContext(ctx).Error(err, "Cannot see to the cleaning Jobs of a node, and will try again", logkeys.Node, klog.KRef("", node))
			c.queue.AddRateLimited(node)
		}
		c.queue.Done(node)
	}
}
