// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// provisioner is a storage vendor's provisioner for one driver. Its volumes are
// on one node each.
type provisioner struct {
	e *fixture.Env
	// before is called before a volume is made, and may wait or refuse. A
	// refusal makes the scheduler select another node.
	before func(context.Context, controller.ProvisionOptions) error
	calls  sync.WaitGroup
	ended  context.Context // done when the test ends

	mu    sync.Mutex
	asked []string            // nodes, in order
	made  map[string]struct{} // volumes, with their nodes
}

// errRefused is a vendor's reason to refuse a node.
var errRefused = errors.New("the node's disks are full")

// startProvisioner serves the Env's driver until the test ends. The classes
// must exist. The volume of claim c is called e.Name("pvc-c").
func startProvisioner(e *fixture.Env, before func(context.Context, controller.ProvisionOptions) error) *provisioner {
	e.T.Helper()
	ended, end := context.WithCancel(context.WithoutCancel(e.Context()))
	p := &provisioner{e: e, before: before, ended: ended, made: map[string]struct{}{}}
	name := driver(e)
	vendors.serve(name, p)
	e.T.Cleanup(func() {
		vendors.serve(name, nil)
		end()
		p.calls.Wait()
	})
	return p
}

// provision is controller.Provisioner's Provision.
func (p *provisioner) provision(ctx context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	p.mu.Lock()
	p.asked = append(p.asked, o.SelectedNodeName)
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ended, cancel)()
	if p.before != nil {
		if err := p.before(ctx, o); err != nil {
			return nil, controller.ProvisioningReschedule, err
		}
	}
	affinity, err := p.affinity(ctx, o)
	if err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[o.PVName+" on "+o.SelectedNodeName] = struct{}{}
	size := o.PVC.Spec.Resources.Requests[v1.ResourceStorage]
	volume := p.e.PV(o.PVName).CSI(driver(p.e), o.PVName).Capacity(size.String()).Affinity(affinity).
		AccessModes(o.PVC.Spec.AccessModes...).ReclaimPolicy(*o.StorageClass.ReclaimPolicy)
	return volume.Obj(), controller.ProvisioningFinished, nil
}

// affinity is the selected node's, by its label, or else the class's topology.
func (p *provisioner) affinity(ctx context.Context, o controller.ProvisionOptions) (v1.NodeSelectorTerm, error) {
	if o.SelectedNodeName == "" {
		allowed := o.StorageClass.AllowedTopologies[0].MatchLabelExpressions[0]
		return builders.Term(builders.In(allowed.Key, allowed.Values...)), nil
	}
	node, err := p.e.Client.CoreV1().Nodes().Get(ctx, o.SelectedNodeName, metav1.GetOptions{})
	if err != nil {
		return v1.NodeSelectorTerm{}, err
	}
	return builders.Term(builders.In(v1.LabelHostname, node.Labels[v1.LabelHostname])), nil
}

// nodes selected for it, in order. The library may repeat a node.
func (p *provisioner) nodes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Compact(slices.Clone(p.asked))
}

// volumes is how many volumes it has made.
func (p *provisioner) volumes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.made)
}

// gate keeps a provisioner busy until it is opened.
type gate struct {
	arrived chan string // claims
	open    chan struct{}
}

// newGate makes a gate that is closed. The test's end opens it.
func newGate(e *fixture.Env) *gate {
	g := &gate{arrived: make(chan string, 16), open: make(chan struct{})}
	e.T.Cleanup(func() {
		select {
		case <-g.open:
		default:
			close(g.open)
		}
	})
	return g
}

func (g *gate) pass(ctx context.Context, o controller.ProvisionOptions) error {
	select {
	case <-g.open:
		return nil
	default:
	}
	g.arrived <- o.PVC.Name
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wait returns when the provisioner is at work on the claim.
func (g *gate) wait(e *fixture.Env, claim string) {
	e.T.Helper()
	waitTimeout := time.NewTimer(e.Timeout)
	defer waitTimeout.Stop()
	select {
	case got := <-g.arrived:
		if got != claim {
			e.T.Fatalf("the provisioner gets claim %s, want %s\n%s", got, claim, e.Dump())
		}
	case <-waitTimeout.C:
		e.T.Fatalf("the provisioner does not get claim %s\n%s", claim, e.Dump())
	}
}

// driver is the name of the Env's own driver and of its provisioner.
func driver(e *fixture.Env) string { return vendors.driver(e) }

// createClass makes a class of the Env's own driver, called e.Name("made").
func createClass(e *fixture.Env, change ...func(*builders.Class)) {
	e.T.Helper()
	class := e.Class("made").Provisioner(driver(e))
	for _, f := range change {
		f(class)
	}
	e.CreateClass(class)
}

// made is a claim for which the driver makes a volume.
func made(e *fixture.Env, name, size string) *builders.PVC {
	return e.PVC(name).Class(e.Name("made")).Request(size)
}

// trackCapacity has the driver's capacity count, or not.
func trackCapacity(e *fixture.Env, tracked bool) {
	e.T.Helper()
	writeDriver(e, driver(e), tracked)
}

// writeDriver creates or updates a driver's object.
func writeDriver(e *fixture.Env, name string, tracked bool) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	drivers := e.Client.StorageV1().CSIDrivers()
	object := builders.MakeCSIDriver(name).StorageCapacity(tracked).Obj()
	object.Labels = e.NodeSelector()
	_, err := drivers.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var live *storagev1.CSIDriver
		if live, err = drivers.Get(ctx, object.Name, metav1.GetOptions{}); err == nil {
			live.Spec.StorageCapacity = &tracked
			_, err = drivers.Update(ctx, live, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		e.T.Fatal(err)
	}
}

// nodeCapacity is the capacity that the driver has on a node.
func nodeCapacity(e *fixture.Env, name, node string) *builders.Capacity {
	return builders.MakeCapacity(name, e.Name("made")).Namespace(e.Namespace).Hostname(e.Name(node))
}

// shared is capacity that a node would share with another one, which is not there: it is apart
// from the node's own.
func shared(e *fixture.Env, name, node, with string) *builders.Capacity {
	return nodeCapacity(e, name, node).Topology(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: v1.LabelHostname, Operator: metav1.LabelSelectorOpIn, Values: []string{e.Name(node), e.Name(with)}},
	}})
}

// publish creates or updates capacity.
func publish(e *fixture.Env, list ...*builders.Capacity) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	capacities := e.Client.StorageV1().CSIStorageCapacities(e.Namespace)
	for _, b := range list {
		object := b.Obj()
		_, err := capacities.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var live *storagev1.CSIStorageCapacity
			if live, err = capacities.Get(ctx, object.Name, metav1.GetOptions{}); err == nil {
				live.Capacity, live.MaximumVolumeSize = object.Capacity, object.MaximumVolumeSize
				_, err = capacities.Update(ctx, live, metav1.UpdateOptions{})
			}
		}
		if err != nil {
			e.T.Fatal(err)
		}
	}
}

// selects reports whether a claim is to be provisioned on the node.
func selects(e *fixture.Env, node string) func(*v1.PersistentVolumeClaim) bool {
	return func(claim *v1.PersistentVolumeClaim) bool {
		return claim.Annotations[plan.AnnSelectedNode] == e.Name(node)
	}
}

func anyVolume(*v1.PersistentVolume) bool { return true }
