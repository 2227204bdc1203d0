// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisionerName is what class zonal names.
const provisionerName = "zonal.demo.stowage.dev"

// zonal makes volumes that the nodes of one zone can reach: that of the node
// which the scheduler has selected for the claim. The volumes are objects only;
// simulated nodes mount nothing.
type zonal struct{ client kubernetes.Interface }

var _ controller.Provisioner = zonal{}

// newProvisioner makes an external provisioner that stops with ctx.
// It writes to the scheme by which clients decode: nothing of this process may
// read from the API server meanwhile.
func newProvisioner(ctx context.Context, client kubernetes.Interface) *controller.ProvisionController {
	return controller.NewProvisionController(ctx, client, provisionerName, zonal{client},
		controller.LeaderElection(false),
		controller.VolumeName(func(claim *v1.PersistentVolumeClaim) string { return "zonal-" + claim.Name }),
	)
}

// Provision implements controller.Provisioner.
func (z zonal) Provision(ctx context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	node, err := z.client.CoreV1().Nodes().Get(ctx, o.SelectedNodeName, metav1.GetOptions{})
	if err != nil {
		return nil, controller.ProvisioningNoChange, fmt.Errorf("get node %q: %w", o.SelectedNodeName, err)
	}
	zone, ok := node.Labels[v1.LabelTopologyZone]
	if !ok {
		return nil, controller.ProvisioningReschedule, fmt.Errorf("node %q is in no zone", node.Name)
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName:              o.StorageClass.Name,
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    o.PVC.Spec.VolumeMode,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: o.PVC.Spec.Resources.Requests[v1.ResourceStorage]},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				CSI: &v1.CSIPersistentVolumeSource{Driver: provisionerName, VolumeHandle: o.PVName},
			},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{
						{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}},
					},
				}},
			}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete implements controller.Provisioner. A volume is an object only.
func (zonal) Delete(context.Context, *v1.PersistentVolume) error { return nil }
