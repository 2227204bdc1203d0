// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

// A volume that cannot go on is tried again after retryFirst, then ever later.
const retryFirst, retryLast = 100 * time.Millisecond, time.Minute

// sweepPeriod is how often it is looked whether tombstones have become settled, besides
// whenever a volume of ours changes, and whether reports have nothing to say any more.
const sweepPeriod = 10 * time.Minute

// Config is all that a Controller needs.
type Config struct {
	Settings controller.NodeLoss
	// Client may do what manifests/controller/base/rbac.yaml allows.
	Client kubernetes.Interface
	// Informers are not started yet, nor is ReportInformer, which has the reports of
	// all nodes.
	Informers      informers.SharedInformerFactory
	Reports        *diskreports.Client
	ReportInformer cache.SharedIndexInformer
	Events         events.EventRecorder
}

// Controller releases claims. One runs at a time in a cluster; New may be called by any
// number of processes.
type Controller struct {
	Config
	queue workqueue.TypedRateLimitingInterface[string] // names of volumes
	sweep chan struct{}                                // asks for a look at tombstones

	nodes   corelisters.NodeLister
	volumes cache.SharedIndexInformer
	claims  corelisters.PersistentVolumeClaimLister
	pods    cache.SharedIndexInformer
	classes storagelisters.StorageClassLister
	sets    appslisters.StatefulSetLister

	mu sync.Mutex
	// released are our own releases, by the UID of the volume: the informer may not
	// show them yet.
	released map[string]time.Time
	// pretended are marks and releases of a dry run, by the volume's UID.
	pretended map[string]pretence
	told      map[string]string // what users were told last, by the volume's UID
	states    map[string]standing
	// suspects are identities that several nodes may show since the last sweep, duplicates the
	// nodes that show them.
	suspects   map[string]bool
	duplicates map[string][]string
}

// standing is how a volume stands, for metrics.
type standing struct{ cause, state string }

// New makes a controller. It does nothing until Run.
func New(config Config) (*Controller, error) {
	core, factory := config.Informers.Core().V1(), config.Informers
	c := &Controller{
		Config: config, sweep: make(chan struct{}, 1),
		nodes: core.Nodes().Lister(), claims: core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Informer(), pods: core.Pods().Informer(),
		classes: factory.Storage().V1().StorageClasses().Lister(), sets: factory.Apps().V1().StatefulSets().Lister(),
		released: map[string]time.Time{}, pretended: map[string]pretence{}, told: map[string]string{}, states: map[string]standing{},
		suspects: map[string]bool{}, duplicates: map[string][]string{},
	}
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "node_loss"})
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("watch for lost nodes: %w", err)
	}
	metrics.RegisterController()
	return c, nil
}

// Run works until ctx ends. The informers are synced before.
func (c *Controller) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			name, shutdown := c.queue.Get()
			if shutdown {
				return
			}
			if ctx.Err() == nil { // what is left is for who leads next
				c.process(ctx, name)
			}
			c.queue.Done(name)
		}
	})
	running.Go(func() { c.sweeps(ctx) })
	<-ctx.Done()
	c.queue.ShutDown()
	running.Wait()
	return nil
}

// errAgain says that what a decision rested on is not so any more, or not yet.
var errAgain = errors.New("something has changed meanwhile")

// process brings a volume as far as it can go now.
func (c *Controller) process(ctx context.Context, name string) {
	again, err := c.step(ctx, name)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errAgain):
		c.queue.AddRateLimited(name)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Cannot do what was decided, and will try again", logkeys.Volume, klog.KRef("", name))
		metrics.CountNodeLossError()
		c.queue.AddRateLimited(name)
	case again > 0:
		c.queue.Forget(name)
		c.queue.AddAfter(name, again)
	default:
		c.queue.Forget(name)
	}
}

// volume is what the informer shows; nil if it shows none.
func (c *Controller) volume(name string) *corev1.PersistentVolume {
	object, exists, err := c.volumes.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	volume, _ := object.(*corev1.PersistentVolume)
	return volume
}
