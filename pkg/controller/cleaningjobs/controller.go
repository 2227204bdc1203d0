// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cleaningjobs creates the Jobs that clean local disks, at the request of the
// provisioners, and reports their state.
//
// The entries of a node's LocalDiskReport have the requests, status.jobs of its first page has
// the answers. Package cleanjob decides; this package reads what it decides by (the volume from
// the API server, the provisioner's configuration, Jobs and pods) and acts. A node is reconciled
// when its report, or one of its Jobs and pods, changes.
package cleaningjobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// workers is how many nodes are reconciled concurrently.
	workers = 4
	// A failed node is retried after retryFirst, then with a growing delay.
	retryFirst, retryLast = time.Second, 2 * time.Minute
	// abandonedFor is how long a Job may run without a request. A restarted provisioner repeats
	// its requests within that time.
	abandonedFor = 2 * time.Minute

	byVolume, byNode = "volume", "node"
)

// Reports writes LocalDiskReports.
type Reports interface {
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*stowage.LocalDiskReport, error)
}

// Config configures a Controller.
type Config struct {
	// Client may do what manifests/controller/cleaning-jobs.yaml allows.
	Client  kubernetes.Interface
	Reports Reports
	// ReportInformer has the reports of all nodes. The caller runs it.
	ReportInformer cache.SharedIndexInformer
	// Namespace is that of the provisioner and of the Jobs.
	Namespace string
	// ConfigMap has the provisioner's configuration; DaemonSet is the provisioner's.
	ConfigMap, DaemonSet string
	// Image is the image of Jobs; empty: the image of the provisioner.
	Image string
}

// Controller creates cleaning Jobs. Only the leader runs it; two at a time do not conflict.
type Controller struct {
	Config
	queue        loop.Queue                      // names of nodes
	own          informers.SharedInformerFactory // Jobs and their pods
	jobs, pods   cache.SharedIndexInformer
	settings     informers.SharedInformerFactory // the provisioner's configuration
	provisioners informers.SharedInformerFactory // the provisioner's DaemonSet

	mu sync.Mutex
	// abandoned is since when Jobs have no request, by node.
	abandoned map[string]map[types.UID]time.Time
}

// New returns a Controller; Run starts it.
func New(config Config) (*Controller, error) {
	if config.Client == nil || config.Reports == nil || config.ReportInformer == nil || config.Namespace == "" || config.ConfigMap == "" {
		return nil, errors.New("make the controller of cleaning Jobs: there is no client, no informer of reports, no namespace or no name of a ConfigMap")
	}
	c := &Controller{Config: config, abandoned: map[string]map[types.UID]time.Time{}}
	c.queue = loop.NewQueue("cleaning_jobs", retryFirst, retryLast)
	c.own = c.factory(func(o *metav1.ListOptions) { o.LabelSelector = wellknown.CleaningLabel })
	c.settings = c.factory(named(config.ConfigMap))
	c.provisioners = c.factory(named(config.DaemonSet))
	c.jobs, c.pods = c.own.Batch().V1().Jobs().Informer(), c.own.Core().V1().Pods().Informer()
	index := cache.Indexers{byVolume: label(wellknown.CleaningLabel), byNode: label(wellknown.NodeLabel)}
	if err := errors.Join(c.jobs.AddIndexers(index), c.pods.AddIndexers(index), c.watch()); err != nil {
		return nil, fmt.Errorf("make the controller of cleaning Jobs: %w", err)
	}
	metrics.RegisterController()
	return c, nil
}

func (c *Controller) factory(tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithNamespace(c.Namespace),
		informers.WithTweakListOptions(tweak), informers.WithTransform(loop.WithoutManagedFields))
}

func named(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + name }
}

// label indexes objects by a label.
func label(key string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		meta, ok := object.(metav1.Object)
		if !ok || meta.GetLabels()[key] == "" {
			return nil, nil
		}
		return []string{meta.GetLabels()[key]}, nil
	}
}

// watch adds handlers that enqueue the node of a changed object.
func (c *Controller) watch() error {
	ofReport := func(object any) {
		if report, ok := object.(*stowage.LocalDiskReport); ok && concerns(report) {
			c.queue.Add(report.Spec.NodeName)
		}
	}
	ofNode := func(object any) {
		if job, ok := object.(*batchv1.Job); ok && job.Annotations[wellknown.NodeNameAnnotation] != "" {
			c.queue.Add(job.Annotations[wellknown.NodeNameAnnotation])
		} else if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			c.queue.Add(pod.Spec.NodeName)
		}
	}
	all := func(any) { // every node with requests or answers
		for _, report := range c.ReportInformer.GetStore().List() {
			ofReport(report)
		}
	}
	_, err := c.jobs.AddEventHandler(c.countJobs())
	return errors.Join(err, loop.WatchEach(c.ReportInformer, ofReport), loop.WatchEach(c.jobs, ofNode), loop.WatchEach(c.pods, ofNode),
		loop.WatchEach(c.settings.Core().V1().ConfigMaps().Informer(), all),
		loop.WatchEach(c.provisioners.Apps().V1().DaemonSets().Informer(), all))
}

// concerns reports whether a report has requests or answers.
func concerns(report *stowage.LocalDiskReport) bool {
	return len(report.Status.Jobs) > 0 || slices.ContainsFunc(report.Status.Entries, func(e stowage.Entry) bool {
		return e.Cleaning != nil && e.Cleaning.Request != nil
	})
}

// Run creates Jobs until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	stop, err := loop.Start(ctx, c.own, c.settings, c.provisioners)
	defer stop()
	if err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.ReportInformer.HasSynced) {
		return fmt.Errorf("list reports: %w", context.Cause(ctx))
	}
	loop.Run(ctx, c.queue, workers, func(ctx context.Context, node string) (time.Duration, error) { return 0, c.reconcile(ctx, node) })
	return nil
}

// countJobs returns a handler that updates the metrics of Jobs. Jobs that ended while no
// controller ran are not counted.
func (c *Controller) countJobs() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if job, ok := object.(*batchv1.Job); ok && !cleanjob.Ended(job) {
				metrics.AddCleaningJobsRunning(1)
			}
		},
		UpdateFunc: func(old, object any) {
			before, ok := old.(*batchv1.Job)
			job, is := object.(*batchv1.Job)
			if !ok || !is {
				return
			}
			if before.UID != job.UID { // the deletion of the previous Job was not observed
				c.countGone(before)
				before = &batchv1.Job{}
				metrics.AddCleaningJobsRunning(1)
			}
			if !cleanjob.Ended(before) && cleanjob.Ended(job) {
				c.countEnded(job)
			}
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if job, ok := object.(*batchv1.Job); ok {
				c.countGone(job)
			}
		},
	}
}

// countGone counts a deleted Job.
func (c *Controller) countGone(job *batchv1.Job) {
	if !cleanjob.Ended(job) {
		metrics.AddCleaningJobsRunning(-1)
		metrics.CountCleaningJobFailed(string(cleanjob.JobDeleted))
	}
}

// countEnded counts a Job that just ended.
func (c *Controller) countEnded(job *batchv1.Job) {
	metrics.AddCleaningJobsRunning(-1)
	observed := cleanjob.Seen{Pods: loop.List[corev1.Pod](c.pods, byVolume, job.Labels[wellknown.CleaningLabel])}
	switch standing := cleanjob.StatusOf(job, observed.Of(job.Name)); {
	case standing.State == stowage.CleaningJobSucceeded:
		metrics.CountCleaningJobSucceeded()
	case standing.Problem != nil:
		metrics.CountCleaningJobFailed(string(standing.Problem.Reason))
	default:
		metrics.CountCleaningJobFailed(string(cleanjob.JobFailed))
	}
}
