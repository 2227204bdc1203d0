// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// vendors are all provisioners of this process, run by one controller of the
// library that external provisioners are built on. The library registers types
// in the global scheme of all clients of a process, each time that a
// controller is made, so one is made before any watch.
var vendors = &registry{names: map[string]string{}, serving: map[string]*provisioner{}}

// maxDrivers is how many tests of one run may have their own driver.
const maxDrivers = 1000

// registry passes claims to the provisioners of their drivers.
type registry struct {
	mu      sync.Mutex
	names   map[string]string // drivers by the Env's namespace
	serving map[string]*provisioner
}

var (
	_ controller.Provisioner = (*registry)(nil)
	_ controller.Qualifier   = (*registry)(nil)
)

// begin runs the controller for all drivers that tests may have.
func (r *registry) begin(_ context.Context, c *cluster.Cluster) (stop func(), err error) {
	var names []string
	for n := range maxDrivers {
		names = append(names, driverName(n))
	}
	ctx, cancel := context.WithCancel(context.Background())
	loop := controller.NewProvisionController(ctx, c.Client(), names[0], r,
		controller.AdditionalProvisionerNames(names[1:]),
		controller.LeaderElection(false),
		controller.Threadiness(100),          // tests keep some of them waiting
		controller.ResyncPeriod(time.Second), // for claims that exist before their provisioner
		controller.VolumeName(func(claim *v1.PersistentVolumeClaim) string { return claim.Namespace + "-pvc-" + claim.Name }),
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, time.Second)),
	)
	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}, nil
}

func driverName(n int) string { return fmt.Sprintf("driver-%d.example", n) }

// driver is the name of the Env's own driver.
func (r *registry) driver(e *fixture.Env) string {
	e.T.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.names[e.Namespace]; !ok {
		if len(r.names) == maxDrivers {
			e.T.Fatalf("all %d drivers are taken", maxDrivers)
		}
		r.names[e.Namespace] = driverName(len(r.names))
	}
	return r.names[e.Namespace]
}

// serve makes p the provisioner of a driver from now on; nil: none.
func (r *registry) serve(driver string, p *provisioner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == nil {
		delete(r.serving, driver)
		return
	}
	r.serving[driver] = p
}

// ShouldProvision implements controller.Qualifier: not while the claim's driver has no
// provisioner.
func (r *registry) ShouldProvision(_ context.Context, claim *v1.PersistentVolumeClaim) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.serving[r.names[claim.Namespace]] != nil
}

// Provision implements controller.Provisioner.
func (r *registry) Provision(ctx context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	r.mu.Lock()
	p := r.serving[o.StorageClass.Provisioner]
	if p == nil {
		r.mu.Unlock()
		return nil, controller.ProvisioningNoChange, fmt.Errorf("driver %s: its test is over", o.StorageClass.Provisioner)
	}
	p.calls.Add(1)
	r.mu.Unlock()
	defer p.calls.Done()
	return p.provision(ctx, o)
}

// Delete implements controller.Provisioner. A volume has no storage.
func (r *registry) Delete(context.Context, *v1.PersistentVolume) error { return nil }
