// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeloss releases claims whose volumes are lost with their nodes, where users
// enabled that, and removes the volumes of nodes that are gone; see docs/design/node-loss.md.
//
// Events of a volume, its node, its claim or its node's report enqueue the volume's name. The
// worker reads the facts from the informers (facts.go), package rules decides, the worker
// confirms the decision with the API server (confirm.go) and takes one action (actions.go).
// Each write enqueues the volume again, until nothing is left to do.
package nodeloss

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

// A failed volume is retried after retryFirst, then with a growing delay.
const retryFirst, retryLast = 100 * time.Millisecond, time.Minute

// sweepPeriod is how often obsolete reports are looked for. Resolved tombstones are also looked for
// whenever an owned volume changes.
const sweepPeriod = 10 * time.Minute

// Config configures a Controller. All fields but PavVolumes are required.
type Config struct {
	// Namespace is that of the provisioners.
	Namespace string
	Settings  controller.NodeLoss
	// Client may do what manifests/controller/base/rbac.yaml allows.
	Client kubernetes.Interface
	// Informers, ReportInformer and TombstoneInformer are not started yet. These two have the
	// reports and the tombstones of all nodes.
	Informers         informers.SharedInformerFactory
	Reports           *diskreports.Client
	ReportInformer    cache.SharedIndexInformer
	Tombstones        *diskreports.TombstoneClient
	TombstoneInformer cache.SharedIndexInformer
	Events            events.EventRecorder
	// PavVolumes are the states of volumes of PavProvisioners; nil: these volumes are left alone.
	PavVolumes PavVolumes
}

// PavVolumes gets and deletes PavVolumes.
type PavVolumes interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*stowage.PavVolume, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// Controller releases claims. Only the leader runs it.
type Controller struct {
	Config
	queue  loop.Queue // names of volumes
	sweeps loop.Queue // tombstonesKey, reportsKey, and suspect identities

	nodes   corelisters.NodeLister
	volumes cache.SharedIndexInformer
	claims  corelisters.PersistentVolumeClaimLister
	pods    cache.SharedIndexInformer
	classes storagelisters.StorageClassLister
	sets    appslisters.StatefulSetLister

	mu sync.Mutex
	// released are releases by this process, by the UID of the volume: the informer may lag
	// behind.
	released map[string]time.Time
	// dryRuns are simulated marks and releases of a dry run, by the name of the volume.
	dryRuns    map[string]dryRunState
	lastEvents map[string]string // the last event of a volume, by its name
	states     map[string]lossState
	duplicates map[string][]string // the nodes that report an identity, if these are several
}

// lossState labels the metric of lost volumes.
type lossState struct{ cause, state string }

// New returns a controller; Run starts it.
func New(config Config) (*Controller, error) {
	core, factory := config.Informers.Core().V1(), config.Informers
	c := &Controller{
		Config: config,
		nodes:  core.Nodes().Lister(), claims: core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Informer(), pods: core.Pods().Informer(),
		classes: factory.Storage().V1().StorageClasses().Lister(), sets: factory.Apps().V1().StatefulSets().Lister(),
		released: map[string]time.Time{}, dryRuns: map[string]dryRunState{}, lastEvents: map[string]string{}, states: map[string]lossState{},
		duplicates: map[string][]string{},
	}
	c.queue, c.sweeps = loop.NewQueue("node_loss", retryFirst, retryLast), loop.NewQueue("node_loss_sweeps", retryFirst, retryLast)
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("watch for lost nodes: %w", err)
	}
	metrics.RegisterController()
	return c, nil
}

// Run works until ctx ends. The informers must be synced before.
func (c *Controller) Run(ctx context.Context) error {
	var sweeping sync.WaitGroup
	c.sweeps.Add(reportsKey)
	sweeping.Go(func() { loop.Run(ctx, c.sweeps, 1, c.sweep) })
	loop.Run(ctx, c.queue, 1, func(ctx context.Context, name string) (time.Duration, error) {
		after, err := c.reconcile(ctx, name)
		if err != nil && !errors.Is(err, loop.ErrStale) && ctx.Err() == nil {
			metrics.CountNodeLossError()
		}
		return after, err
	})
	sweeping.Wait()
	return nil
}
