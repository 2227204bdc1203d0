// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeservice is the CSI node service of all PavProvisioners on a node. It has volumes staged
// by writing PavStagings, for which the controller runs pods, and mounts what these make available
// into the pods that kubelet starts.
//
// Each provisioner is a CSI driver with sockets of its own, which kubelet finds in its directory of
// plugins. The service keeps no state: what is staged is in the PavStagings, what is mounted is known
// to the kernel.
package nodeservice

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/pav/nodeservice/publish"
	"stowage.dev/stowage/pkg/pav/nodeservice/stagingdir"
	"stowage.dev/stowage/pkg/pav/pavclient"
)

// Config configures a Service.
type Config struct {
	// Node is the name of the node, at most stowage.MaxStagingNode bytes. BootID is its current boot.
	Node, BootID string
	// KubeletDir is kubelet's --root-dir.
	KubeletDir string
	// MaxVolumes is how many volumes of each provisioner kubelet and the scheduler may have on the
	// node; 0 without a limit.
	MaxVolumes int64
	// Clients may do what manifests/csi/rbac.yaml allows.
	Clients   *pavclient.Clients
	Dirs      *stagingdir.Dirs
	Publisher *publish.Publisher
	// Mountinfo is the file of the service's own mounts.
	Mountinfo string
}

const (
	// retryFirst and retryLast are the delays of what failed.
	retryFirst, retryLast = 500 * time.Millisecond, time.Minute
	// clearing is how many volumes are cleared concurrently.
	clearing = 4
	// hung is how long the end of the service waits for operations on volumes whose file system does
	// not respond.
	hung = 5 * time.Second
)

// Service is the node service. Run runs it.
type Service struct {
	Config
	stagings, provisioners cache.SharedIndexInformer
	changes                changes
	files                  files
	clears                 loop.Queue // names of PavStagings
	driverKeys             loop.Queue // names of drivers
	drivers                drivers
}

const byDriver = "driver"

// New returns a Service.
func New(config Config) (*Service, error) {
	if n := len(config.Node); n == 0 || n > stowage.MaxStagingNode {
		return nil, fmt.Errorf("the name of the node has %d bytes, must have 1 to %d", n, stowage.MaxStagingNode)
	}
	s := &Service{
		Config: config,
		clears: loop.NewQueue("pav_clear", retryFirst, retryLast), driverKeys: loop.NewQueue("pav_drivers", retryFirst, retryLast),
	}
	var stagings, provisioners error
	s.stagings, stagings = pavclient.NewInformer(config.Clients.Stagings, &stowage.PavStaging{}, fields.OneTermEqualSelector("spec.nodeName", config.Node))
	s.provisioners, provisioners = pavclient.NewInformer(config.Clients.Provisioners, &stowage.PavProvisioner{}, fields.Everything())
	if err := errors.Join(stagings, provisioners); err != nil {
		return nil, err
	}
	err := errors.Join(
		s.stagings.SetTransform(withoutCopies), s.provisioners.SetTransform(withoutSpec),
		s.stagings.AddIndexers(cache.Indexers{byDriver: func(object any) ([]string, error) {
			return []string{object.(*stowage.PavStaging).Spec.Provisioner}, nil
		}}),
		loop.Watch(s.stagings, func(before, object any) {
			staging, ok := object.(*stowage.PavStaging)
			if !ok {
				return
			}
			s.changes.notify(staging.Name)
			if before == nil { // it was added or deleted
				s.driverKeys.Add(staging.Spec.Provisioner)
			}
			if uncleared(staging) || s.staging(staging.Name) == nil {
				s.clears.Add(staging.Name)
			}
		}),
		loop.Tally(s.stagings, func(*stowage.PavStaging) struct{} { return struct{}{} }, func(_ struct{}, more float64) { metrics.AddCSIStagings(more) }),
		loop.Watch(s.provisioners, func(before, object any) {
			if p, ok := object.(*stowage.PavProvisioner); ok && before == nil {
				s.driverKeys.Add(p.Name)
			}
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("watch PavStagings: %w", err)
	}
	metrics.RegisterCSI()
	return s, nil
}

// withoutCopies is a transform that drops what only the controller reads.
func withoutCopies(object any) (any, error) {
	if staging, ok := object.(*stowage.PavStaging); ok {
		staging.ManagedFields = nil
		staging.Status.Claim.Raw, staging.Status.Volume.Raw, staging.Status.Node.Raw = nil, nil, nil
	}
	return object, nil
}

// withoutSpec is a transform that leaves a provisioner's metadata.
func withoutSpec(object any) (any, error) {
	if p, ok := object.(*stowage.PavProvisioner); ok {
		return &stowage.PavProvisioner{ObjectMeta: p.ObjectMeta}, nil
	}
	return object, nil
}

// Synced reports whether the service knows its PavStagings and provisioners.
func (s *Service) Synced() bool { return s.stagings.HasSynced() && s.provisioners.HasSynced() }

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	defer s.files.wait(hung)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, informer := range []cache.SharedIndexInformer{s.stagings, s.provisioners} {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), s.stagings.HasSynced, s.provisioners.HasSynced) {
		return fmt.Errorf("list PavProvisioners and PavStagings: %w", context.Cause(ctx))
	}
	volumes, err := s.Dirs.Volumes()
	if err != nil {
		return err
	}
	for _, volume := range volumes { // their PavStagings may have been deleted while the service did not run
		s.clears.Add(volume + "." + s.Node)
	}
	known, err := s.Publisher.Drivers()
	if err != nil {
		return err
	}
	for driver := range known {
		s.driverKeys.Add(driver)
	}
	defer s.drivers.stop()
	running.Go(func() { loop.Run(ctx, s.driverKeys, 1, s.reconcileDriver) })
	running.Go(func() { loop.Run(ctx, s.clears, clearing, s.clear) })
	return mounts.Watch(ctx, s.Mountinfo, s.retryClears)
}

// retryClears enqueues all volumes that are to be cleared.
func (s *Service) retryClears() {
	for _, staging := range loop.List[stowage.PavStaging](s.stagings, "", "") {
		if uncleared(staging) {
			s.clears.Add(staging.Name)
		}
	}
}

// staging returns a PavStaging of the informer; nil if it has none.
func (s *Service) staging(name string) *stowage.PavStaging {
	object, _, err := s.stagings.GetStore().GetByKey(name)
	staging, ok := object.(*stowage.PavStaging)
	if err != nil || !ok {
		return nil
	}
	return staging
}

// reconcileDriver starts or stops to serve a driver.
func (s *Service) reconcileDriver(ctx context.Context, driver string) (time.Duration, error) {
	_, provided, err := s.provisioners.GetStore().GetByKey(driver)
	if err != nil {
		return 0, fmt.Errorf("get PavProvisioner %s from the informer: %w", driver, err)
	}
	staged := len(loop.List[stowage.PavStaging](s.stagings, byDriver, driver)) > 0
	sockets := socketsOf(s.KubeletDir, driver)
	switch {
	case provided, staged:
		return 0, s.drivers.serve(ctx, s, driver, sockets)
	case !sockets.exist():
		return 0, nil // another driver
	}
	known, err := s.Publisher.Drivers()
	if err != nil {
		return 0, err
	}
	if known[driver] { // kubelet has to unpublish a volume of a provisioner that was removed by force
		return retryLast, s.drivers.serve(ctx, s, driver, sockets)
	}
	s.drivers.remove(driver)
	return 0, sockets.remove()
}

// registrationDir is where kubelet finds plugins, below its directory.
const registrationDir = "plugins_registry"

func registryOf(kubeletDir string) string { return filepath.Join(kubeletDir, registrationDir) }
