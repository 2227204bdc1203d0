// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heartbeats is the controller's loop that sets condition Ready of a node's
// LocalDiskReport to Unknown if the provisioner does not renew its Lease. A provisioner that
// renews it again writes its conditions again.
package heartbeats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

// A write that failed is retried after retryFirst, then with a growing delay.
const retryFirst, retryLast = time.Second, time.Minute

// longest bounds the duration of a heartbeat, which a Lease may set to any number of seconds.
const longest = 10 * time.Minute

// Reports reads and writes LocalDiskReports.
type Reports interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*stowage.LocalDiskReport, error)
	UpdateStatus(ctx context.Context, report *stowage.LocalDiskReport, opts metav1.UpdateOptions) (*stowage.LocalDiskReport, error)
}

// Config is what a Controller needs.
type Config struct {
	Client  kubernetes.Interface
	Reports Reports
	// Informers have the nodes, ReportInformer the reports of all nodes. The caller
	// runs them.
	Informers      informers.SharedInformerFactory
	ReportInformer cache.SharedIndexInformer
}

// Controller marks reports. Only the leader runs it.
type Controller struct {
	Config
	nodes   corelisters.NodeLister
	factory informers.SharedInformerFactory // of Leases alone
	queue   loop.Queue                      // names of nodes

	mu     sync.Mutex
	beats  map[string]beat // by node
	silent map[string]bool // nodes whose provisioner is silent
}

// beat is the last heartbeat of a node. Its age is counted from the observation, because clocks of
// nodes may differ.
type beat struct {
	renewed  metav1.MicroTime // as the Lease has it
	observed time.Time
	lasts    time.Duration
}

// New makes a Controller. It does nothing until Run.
func New(config Config) (*Controller, error) {
	c := &Controller{
		Config: config, nodes: config.Informers.Core().V1().Nodes().Lister(),
		factory: informers.NewSharedInformerFactoryWithOptions(config.Client, 0, informers.WithNamespace(diskreports.HeartbeatNamespace)),
		beats:   map[string]beat{}, silent: map[string]bool{},
	}
	c.queue = loop.NewQueue("heartbeats", retryFirst, retryLast)
	_, nodes := config.Informers.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.add, DeleteFunc: c.add})
	if err := errors.Join(nodes,
		loop.Watch(c.factory.Coordination().V1().Leases().Informer(), func(_, object any) { c.leaseChanged(object) }),
		loop.Watch(config.ReportInformer, func(_, object any) { c.add(object) })); err != nil {
		return nil, fmt.Errorf("watch Leases, nodes and reports: %w", err)
	}
	metrics.RegisterController()
	return c, nil
}

// add enqueues the node of a Node or of a report. The first page of a report has the name of its
// node; the names of other pages are ignored by sync.
func (c *Controller) add(object any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		c.queue.Add(key)
	}
}

// leaseChanged records a heartbeat. The deletion of a Lease is none.
func (c *Controller) leaseChanged(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok || !c.observe(lease) {
		return
	}
	c.queue.AddAfter(lease.Name, durationOf(lease))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent[lease.Name] {
		c.queue.Add(lease.Name)
	}
}

// observe records a heartbeat, and reports whether it is new.
func (c *Controller) observe(lease *coordinationv1.Lease) bool {
	if lease.Spec.RenewTime == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.beats[lease.Name]; last.renewed.Equal(lease.Spec.RenewTime) {
		return false
	}
	c.beats[lease.Name] = beat{renewed: *lease.Spec.RenewTime, observed: time.Now(), lasts: durationOf(lease)}
	return true
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		return min(time.Duration(*seconds)*time.Second, longest)
	}
	return diskreports.HeartbeatDuration
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	stop, err := loop.Start(ctx, c.factory)
	defer stop()
	if err != nil {
		return err
	}
	defer metrics.SetSilentProvisioners(0)
	loop.Run(ctx, c.queue, 1, c.sync)
	return nil
}

// sync marks the report of a node if its provisioner is silent. It returns after which time that
// may be the case; zero if an event comes first.
func (c *Controller) sync(ctx context.Context, node string) (time.Duration, error) {
	report := stowage.StoredPage(c.ReportInformer.GetStore(), node, 1)
	if report == nil || meta.FindStatusCondition(report.Status.Conditions, stowage.ConditionReady) == nil { // no provisioner wrote it
		c.setSilent(node, false)
		c.mu.Lock()
		delete(c.beats, node)
		c.mu.Unlock()
		return 0, nil
	}
	if left := c.left(node); left > 0 {
		c.setSilent(node, false)
		return left, nil
	}
	if !meta.IsStatusConditionPresentAndEqual(report.Status.Conditions, stowage.ConditionReady, metav1.ConditionUnknown) {
		if again, err := c.mark(ctx, node); err != nil || again > 0 {
			return again, err
		}
	}
	_, err := c.nodes.Get(node)
	c.setSilent(node, err == nil) // a deleted node needs no provisioner
	return 0, nil
}

// left is how long the last heartbeat of a node lasts from now. A node whose Lease was never
// observed has the time of one heartbeat.
func (c *Controller) left(node string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.beats[node]
	if !ok {
		last = beat{observed: time.Now(), lasts: diskreports.HeartbeatDuration}
		c.beats[node] = last
	}
	return time.Until(last.observed.Add(last.lasts))
}

func (c *Controller) setSilent(node string, silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if silent {
		c.silent[node] = true
	} else {
		delete(c.silent, node)
	}
	metrics.SetSilentProvisioners(len(c.silent))
}

// mark sets Ready to Unknown unless the API server has a newer heartbeat, whose duration is
// returned. The report is read before the Lease: a provisioner renews its Lease
// first and writes its report after that, so its report is never overwritten.
func (c *Controller) mark(ctx context.Context, node string) (time.Duration, error) {
	report, err := c.Reports.Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("get LocalDiskReport %s: %w", node, err)
	}
	if report.Spec.NodeName != node {
		return 0, nil
	}
	lease, err := c.Client.CoordinationV1().Leases(diskreports.HeartbeatNamespace).Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return 0, fmt.Errorf("get Lease %s/%s: %w", diskreports.HeartbeatNamespace, node, err)
	case c.observe(lease):
		return durationOf(lease), nil
	}
	changed := meta.SetStatusCondition(&report.Status.Conditions, metav1.Condition{
		Type: stowage.ConditionReady, Status: metav1.ConditionUnknown, Reason: stowage.ReasonNoHeartbeat, ObservedGeneration: report.Generation,
		Message: fmt.Sprintf("the provisioner does not renew Lease %s/%s: this report may be out of date", diskreports.HeartbeatNamespace, node),
	})
	if !changed {
		return 0, nil
	}
	if _, err := c.Reports.UpdateStatus(ctx, report, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
		return retryFirst, nil
	} else if err != nil {
		return 0, fmt.Errorf("update LocalDiskReport %s: %w", node, err)
	}
	klog.FromContext(ctx).V(2).Info("Set Ready of a report to Unknown: its provisioner does not renew its Lease", logkeys.Node, klog.KRef("", node))
	return 0, nil
}
