// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// localVolume is the volume of a node with a number.
func localVolume(node string, number int) *v1.PersistentVolume {
	volume := volumeOn(node, fmt.Sprintf("%s-%d", node, number), volumeSize)
	volume.Spec.StorageClassName = localClass
	volume.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{
		Local: &v1.LocalVolumeSource{Path: fmt.Sprintf("/mnt/disks/%d", number)},
	}
	return volume
}

// provisionedVolume is made for a claim, on the node that was chosen for it.
func provisionedVolume(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolume {
	volume := volumeOn(node, "pvc-"+string(claim.UID), claimSize)
	volume.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": driver}
	volume.Spec.StorageClassName = driverClass
	volume.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{
		CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: volume.Name},
	}
	volume.Spec.ClaimRef = &v1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim",
		Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	return volume
}

func volumeOn(node, name, size string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
}
