// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pvbinder binds claims and volumes instead of the PV controller of
// kube-controller-manager, which must not run: docs/design/pv-binder.md.
//
// Events of a claim, its volume, its class or its pods enqueue the claim, events of a volume or its
// claim the volume. A worker reads the facts from the cache (facts.go), package rules decides, and the
// worker takes the action (act.go) and decides again, until nothing is left to do. Claims that may
// have any free volume are assigned together, in the order of their creation (matcher.go).
package pvbinder

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/match"
)

const (
	// A failed key is retried after retryFirst, then with a growing delay.
	retryFirst, retryLast = 10 * time.Millisecond, time.Minute
	// workers is how many claims, and how many volumes, are reconciled at once. Nearly all of their
	// time is spent on requests, whose rate the client limits.
	workers = 32
	// manager is the name of this controller in managed fields.
	manager = "stowage-pv-binder"
)

// Cache is the newest state of the cluster that this process has observed. Objects that it returns
// are shared and never changed. It must be safe for concurrent use.
type Cache interface {
	// Ready blocks until all objects of the initial lists were observed, and returns true, or until
	// stop is closed.
	Ready(stop <-chan struct{}) bool
	// Volume returns the newest version seen, nil if there is none.
	Volume(name string) *v1.PersistentVolume
	// Claim returns the newest version seen, nil if there is none.
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	// VolumesFor returns the volumes whose claimRef names the claim.
	VolumesFor(claim *v1.PersistentVolumeClaim) []*v1.PersistentVolume
	// ObserveVolume updates the cache to the informer's state of the volume.
	ObserveVolume(name string)
	// AssignAnywhere assigns at most limit free volumes of a class to requests in order of priority,
	// and reserves each until Release is called with the UID of the request's claim.
	AssignAnywhere(class string, requests []*match.Request, limit int) []*v1.PersistentVolume
	// Release ends the reservation of a claim's volume.
	Release(claim types.UID)
	// ApplyVolume stores an API response. The newer resourceVersion wins.
	ApplyVolume(volume *v1.PersistentVolume)
	// ApplyClaim is ApplyVolume for a claim.
	ApplyClaim(claim *v1.PersistentVolumeClaim)
}

// Config configures a Controller. All fields are required.
type Config struct {
	// Client may do what manifests/controller/pv-binder.yaml allows.
	Client kubernetes.Interface
	// Informers are not started yet. Their volumes have the managed fields that KeepPhaseWriters keeps.
	Informers informers.SharedInformerFactory
	// Cache is fed by Informers.
	Cache  Cache
	Events events.EventRecorder
}

// Controller binds claims and volumes. Only the leader runs it.
type Controller struct {
	Config
	claims, volumes loop.Queue // namespace/name of claims, names of volumes
	matcher         *matcher
	recorded        recorded
	drivers         map[string]string

	claimInformer, podInformer, classInformer cache.SharedIndexInformer

	// working: this replica leads, and no other PV controller was found.
	working atomic.Bool
	// others receives what shows another PV controller.
	others chan *otherWriter
}

// New returns a controller; Run starts it.
func New(config Config) (*Controller, error) {
	core := config.Informers.Core().V1()
	c := &Controller{
		Config:        config,
		claims:        loop.NewQueue("pv_binder_claims", retryFirst, retryLast),
		volumes:       loop.NewQueue("pv_binder_volumes", retryFirst, retryLast),
		drivers:       migratedPlugins(),
		claimInformer: core.PersistentVolumeClaims().Informer(),
		podInformer:   core.Pods().Informer(),
		classInformer: config.Informers.Storage().V1().StorageClasses().Informer(),
		others:        make(chan *otherWriter, 1),
	}
	c.matcher = newMatcher(c.Cache, c.claims)
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("watch claims and volumes: %w", err)
	}
	return c, nil
}

// Run works until ctx ends. After another PV controller was found it does nothing until then: the other
// loops of the process continue. The informers must be synced before.
func (c *Controller) Run(ctx context.Context) error {
	if !c.Cache.Ready(ctx.Done()) {
		return context.Cause(ctx)
	}
	if other := c.work(ctx); other != nil {
		metrics.SetInPlaceStopped(true)
		defer metrics.SetInPlaceStopped(false)
		phase := other.volume.Status.Phase
		klog.FromContext(ctx).Error(nil, "Stopped binding claims until this process is restarted: the PV controller is running. "+
			"Start kube-controller-manager with --controllers=*,-persistentvolume-binder-controller, or set claimBinder.inPlace.enabled to false",
			"manager", other.name, logkeys.Volume, klog.KObj(other.volume), "phase", phase)
		c.Events.Eventf(other.volume, nil, v1.EventTypeWarning, rules.ReasonOtherPVController, action,
			"%q set the phase to %s: stowage-controller, which works instead of the PV controller, stopped binding claims", other.name, phase)
		<-ctx.Done()
	}
	return nil
}

// work reconciles until ctx ends, or until another PV controller is found, which it returns.
func (c *Controller) work(ctx context.Context) (other *otherWriter) {
	c.working.Store(true)
	defer c.working.Store(false)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { loop.RunPaced(ctx, c.matcher.classes, c.matcher.assign) })
	running.Go(func() { loop.Run(ctx, c.volumes, workers, c.syncVolume) })
	running.Go(func() { loop.Run(ctx, c.claims, workers, c.syncClaim) })
	select {
	case other = <-c.others:
		stop()
	case <-ctx.Done():
	}
	running.Wait()
	return other
}

// otherWriter is a manager that set the phase of a volume as a PV controller does.
type otherWriter struct {
	name   string
	volume *v1.PersistentVolume
}

// checkWriter stops the controller if another one sets phases of volumes.
func (c *Controller) checkWriter(before, after *v1.PersistentVolume) {
	other := rules.OtherWriter(before, after, manager)
	if other == "" || !c.working.CompareAndSwap(true, false) {
		return
	}
	c.others <- &otherWriter{name: other, volume: after}
}

// KeepPhaseWriters removes the managed fields of a volume but for those that show whether another PV
// controller is running. A volume may be passed twice.
func KeepPhaseWriters(volume *v1.PersistentVolume) {
	volume.ManagedFields = rules.PhaseWriters(volume.ManagedFields)
}

// classOf returns the class of that name, nil for none.
func (c *Controller) classOf(name string) *storagev1.StorageClass {
	object, _, _ := c.classInformer.GetStore().GetByKey(name) // stores return no errors
	class, _ := object.(*storagev1.StorageClass)
	return class
}
