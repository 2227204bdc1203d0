// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package external runs external provisioners whose volumes exist at once. They are objects only:
// simulated nodes mount nothing.
package external

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"stowage.dev/stowage/pkg/testing/builders"
)

// Provisioner makes volumes for the nodes that have the selected node's value of a label.
type Provisioner struct {
	Client kubernetes.Interface
	// Name is what classes name.
	Name string
	// Label is the key of the label. It is on all nodes; the value of the hostname is the node's name.
	Label string
}

var _ controller.Provisioner = Provisioner{}

// Controller makes the controller that calls the provisioner. It writes to the scheme by which
// clients decode: nothing of this process may read from the API server meanwhile.
func (p Provisioner) Controller(ctx context.Context, options ...func(*controller.ProvisionController) error) *controller.ProvisionController {
	return controller.NewProvisionController(ctx, p.Client, p.Name, p, append(options, controller.LeaderElection(false))...)
}

// Provision implements controller.Provisioner.
func (p Provisioner) Provision(ctx context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	value := o.SelectedNodeName
	if p.Label != v1.LabelHostname {
		node, err := p.Client.CoreV1().Nodes().Get(ctx, o.SelectedNodeName, metav1.GetOptions{})
		if err != nil {
			return nil, controller.ProvisioningNoChange, fmt.Errorf("get node %q: %w", o.SelectedNodeName, err)
		}
		value = node.Labels[p.Label]
	}
	size := o.PVC.Spec.Resources.Requests[v1.ResourceStorage]
	pv := builders.MakePV(o.PVName).Class(o.StorageClass.Name).CSI(p.Name, o.PVName).Capacity(size.String()).
		Affinity(builders.Term(builders.In(p.Label, value))).AccessModes(o.PVC.Spec.AccessModes...).ReclaimPolicy(*o.StorageClass.ReclaimPolicy)
	return pv.Obj(), controller.ProvisioningFinished, nil
}

// Delete implements controller.Provisioner.
func (Provisioner) Delete(context.Context, *v1.PersistentVolume) error { return nil }
