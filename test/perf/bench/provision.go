// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"stowage.dev/stowage/pkg/testing/builders"
)

const provisionerName = "instant.bench.example"

// instant makes volumes that exist on the node that was selected, at once.
type instant struct{}

var _ controller.Provisioner = instant{}

// startProvisioner serves the class until the setup is closed. The library
// writes to the scheme by which clients decode: nothing of this process may read
// from the API server meanwhile.
func (s *setup) startProvisioner(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	loop := controller.NewProvisionController(ctx, s.client, provisionerName, instant{},
		controller.LeaderElection(false), controller.Threadiness(parallelism))
	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx) })
	s.closers = append(s.closers, func() { cancel(); running.Wait() })
}

// Provision implements controller.Provisioner.
func (instant) Provision(_ context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	size := o.PVC.Spec.Resources.Requests[v1.ResourceStorage]
	pv := builders.MakePV(o.PVName).Class(class).CSI(provisionerName, o.PVName).Capacity(size.String()).Hostname(o.SelectedNodeName).
		AccessModes(o.PVC.Spec.AccessModes...).ReclaimPolicy(*o.StorageClass.ReclaimPolicy)
	return pv.Obj(), controller.ProvisioningFinished, nil
}

// Delete implements controller.Provisioner.
func (instant) Delete(context.Context, *v1.PersistentVolume) error { return nil }
