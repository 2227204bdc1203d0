// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
)

// affinity has a provisioner's volume on nodes by these terms.
func affinity(terms ...corev1.NodeSelectorTerm) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity.Required.NodeSelectorTerms = terms }
}

// deviceVolume makes the volume one of a device.
func deviceVolume(pv *corev1.PersistentVolume) {
	pv.Annotations[wellknown.DiskIdentityAnnotation] = "wwn:0x5000c500a1b2c3d4"
	pv.Annotations[wellknown.DiskPathAnnotation] = pv.Spec.Local.Path
	pv.Spec.Local.Path = localpv.LinkPath(pv.Spec.StorageClassName, pv.Name)
}

// TestCreate: a provisioner creates complete, unclaimed volumes of its own node, and
// of no other.
func TestCreate(t *testing.T) {
	t.Parallel()
	const oneHostname = "must be kubernetes.io/hostname In [one hostname]"
	own := builders.Term(builders.In(corev1.LabelHostname, alpha))
	tests := map[string]struct {
		by    *user // nil: alpha's provisioner
		node  string
		forge func(*corev1.PersistentVolume)
		want  refusal
	}{
		"a volume of its node": {},
		"a volume of another class that is listed": {
			forge: func(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = "more-disks" },
		},
		"a volume of a node whose hostname is not its name": {
			by: shared.provisioners[gamma], node: gamma, forge: affinity(builders.Term(builders.In(corev1.LabelHostname, gammaHost))),
		},
		"the node's name, where its hostname is another": {
			by: shared.provisioners[gamma], node: gamma, want: placement("must be on hostname gamma;"),
		},

		"on another node": {
			forge: affinity(builders.Term(builders.In(corev1.LabelHostname, beta))),
			want:  placement("the volumes of node alpha must be on hostname alpha"),
		},
		"on another node too, by a second term": {
			forge: affinity(own, builders.Term(builders.In(corev1.LabelHostname, beta))),
			want:  placement("must be on hostname alpha"),
		},
		"on another node too, by a second value": {
			forge: affinity(builders.Term(builders.In(corev1.LabelHostname, alpha, beta))), want: either(""),
		},
		"on another node by its field": {
			forge: affinity(builders.FieldTerm(builders.In("metadata.name", beta))), want: volumes(oneHostname),
		},
		"on its node, with another field": {
			forge: affinity(corev1.NodeSelectorTerm{MatchExpressions: own.MatchExpressions, MatchFields: []corev1.NodeSelectorRequirement{builders.In("metadata.name", alpha)}}),
			want:  volumes(oneHostname),
		},
		"on all other nodes": {
			forge: affinity(builders.Term(builders.Requirement(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, alpha))), want: volumes(oneHostname),
		},
		"on all nodes": {
			forge: affinity(builders.Term(builders.Requirement(corev1.LabelHostname, corev1.NodeSelectorOpExists))), want: either(""),
		},
		"on the nodes of a zone": {
			forge: affinity(builders.Term(builders.In(corev1.LabelTopologyZone, "z"))), want: either(""),
		},
		"by an empty term": {
			forge: affinity(own, corev1.NodeSelectorTerm{}), want: volumes(oneHostname),
		},

		"under the name of another provisioner's volume": {
			forge: func(pv *corev1.PersistentVolume) { pv.Name = "pvc-6f7b0c1e-4a9d-4c58-9c7f-0d9a2b3c4d5e" },
			want:  placement("the provisioner of node alpha names volumes local-pv-alpha- and 32 hexadecimal digits"),
		},
		"under the name of another node's lost volume, whose claim would be bound to it": {
			forge: func(pv *corev1.PersistentVolume) { pv.Name = volume(beta, beta).Name },
			want:  placement("names volumes local-pv-alpha-"),
		},
		"under a name from before volumes were named after their node": {
			forge: func(pv *corev1.PersistentVolume) { pv.Name = "local-pv-9749d5dae613b03cf117399a7ae5f65c" },
			want:  placement("names volumes local-pv-alpha-"),
		},
		"under the name of a node whose name is longer": {
			forge: func(pv *corev1.PersistentVolume) { pv.Name = "local-pv-alpha-2-9749d5dae613b03cf117399a7ae5f65c" },
			want:  placement("names volumes local-pv-alpha-"),
		},
		"under the name that the reference gives a volume of any node": {
			forge: func(pv *corev1.PersistentVolume) { pv.Name = "local-pv-6f7b0c1e" },
			want:  placement(`set referenceNames to "true"`),
		},
		"with the readable label of another node": {
			forge: func(pv *corev1.PersistentVolume) { pv.Labels[wellknown.NodeNameLabel] = beta },
			want:  volumes("the label stowage.dev/node-name of a volume must be alpha"),
		},
		"without the readable label": {
			forge: func(pv *corev1.PersistentVolume) { delete(pv.Labels, wellknown.NodeNameLabel) },
		},
		"of a device": {forge: deviceVolume},
		"of a device, by its own path": {
			forge: func(pv *corev1.PersistentVolume) { deviceVolume(pv); pv.Spec.Local.Path = "/mnt/disks/disk1" },
			want:  volumes("the volume of a device has the path /dev/stowage/disks/"),
		},
		"of a device, by the link of another volume": {
			forge: func(pv *corev1.PersistentVolume) { deviceVolume(pv); pv.Spec.Local.Path += "0" },
			want:  volumes("the volume of a device has the path /dev/stowage/disks/"),
		},
		"of a device that the provisioner mounts": {
			forge: func(pv *corev1.PersistentVolume) {
				deviceVolume(pv)
				pv.Spec.Local.Path = localpv.MountPath(pv.Spec.StorageClassName, pv.Name)
			},
		},
		"of a device that the provisioner mounts, by the mount point": {
			forge: func(pv *corev1.PersistentVolume) {
				deviceVolume(pv)
				pv.Spec.Local.Path = filepath.Dir(localpv.MountPath(pv.Spec.StorageClassName, pv.Name))
			},
			want: volumes("the volume of a device has the path /dev/stowage/disks/"),
		},
		"of a device, by the mount of another volume": {
			forge: func(pv *corev1.PersistentVolume) {
				deviceVolume(pv)
				pv.Spec.Local.Path = localpv.MountPath(pv.Spec.StorageClassName, pv.Name+"0")
			},
			want: volumes("the volume of a device has the path /dev/stowage/disks/"),
		},
		"of a file system, by the mount of a device": {
			forge: func(pv *corev1.PersistentVolume) {
				pv.Spec.Local.Path = localpv.MountPath(pv.Spec.StorageClassName, pv.Name)
			},
			want: volumes("have their own path and no such annotation"),
		},
		"of a device, without its slot": {
			forge: func(pv *corev1.PersistentVolume) {
				deviceVolume(pv)
				delete(pv.Annotations, wellknown.DiskPathAnnotation)
			},
			want: volumes("the path of its slot in the annotation stowage.dev/disk-path"),
		},
		"of a file system, with another slot": {
			forge: func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.DiskPathAnnotation] = "/mnt/disks/disk1" },
			want:  volumes("and no such annotation"),
		},
		"reserved for a claim": {
			forge: func(pv *corev1.PersistentVolume) {
				pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data"}
			},
			want: volumes("without claimRef"),
		},
		"not local": {
			forge: func(pv *corev1.PersistentVolume) {
				pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs.example.com", Path: "/"}}
			},
			want: volumes("spec.local only"),
		},
		"of a class that is not listed": {
			forge: func(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = "database" },
			want:  placement(`no volumes of class "database"`),
		},
		"of no class": {
			forge: func(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = "" },
			want:  placement(`no volumes of class ""`),
		},
		"that has been lost for years": {
			forge: func(pv *corev1.PersistentVolume) {
				pv.Annotations[wellknown.LostAnnotation] = "DiskMissing 2020-01-01T00:00:00Z"
			},
			want: volumes("with these annotations only"),
		},
		"that is being released": {
			forge: func(pv *corev1.PersistentVolume) {
				pv.Annotations[wellknown.ReleaseAnnotation] = "DiskMissing 9999-01-01T00:00:00Z"
			},
			want: volumes("with these annotations only"),
		},
		"of another class by the old annotation": {
			forge: func(pv *corev1.PersistentVolume) { pv.Annotations[corev1.BetaStorageClassAnnotation] = "database" },
			want:  volumes("with these annotations only"),
		},
		"without our finalizer": {
			forge: func(pv *corev1.PersistentVolume) { pv.Finalizers = nil },
			want:  volumes("with the finalizer stowage.dev/local-volume"),
		},
		"with an owner that it holds": {
			forge: func(pv *corev1.PersistentVolume) {
				yes := true
				pv.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: beta, UID: "1", BlockOwnerDeletion: &yes}}
			},
			want: volumes("without ownerReferences"),
		},
		"with an administrator's acknowledgement": {
			forge: func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.SameDiskAnnotation] = "fs:1:/" },
			want:  volumes("with these annotations only"),
		},

		"in the name of another node": {
			forge: func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.NodeNameAnnotation] = beta },
			want:  volumes("its own volumes only"),
		},
		"provisioned by another node": {
			forge: func(pv *corev1.PersistentVolume) {
				pv.Annotations[localpv.ProvisionedByAnnotation] = localpv.ProvisionedBy(beta)
			},
			want: volumes("its own volumes only"),
		},
		"without annotations": {
			forge: func(pv *corev1.PersistentVolume) { pv.Annotations = nil }, want: volumes("its own volumes only"),
		},
		"without a label": {
			forge: func(pv *corev1.PersistentVolume) { pv.Labels = nil }, want: volumes("32 hexadecimal digits"),
		},
		"with the name for a hash": {
			forge: func(pv *corev1.PersistentVolume) { pv.Labels[wellknown.NodeLabel] = alpha }, want: volumes("32 hexadecimal digits"),
		},
		"another node's whole volume": {node: beta, want: either("")},

		"with a token of no pod":             {by: shared.unbound, want: either(noNode)},
		"by another user than a provisioner": {by: shared.others, forge: affinity(builders.Term(builders.In(corev1.LabelHostname, beta)))},
		"by a user with all rights":          {by: shared.privileged[beta], want: either("")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by, node := shared.provisioners[alpha], alpha
			if test.by != nil {
				by = test.by
			}
			if test.node != "" {
				node = test.node
			}
			pv := volume(node, node)
			if test.forge != nil {
				test.forge(pv)
			}
			_, err := by.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
			test.want.want(t, err)
		})
	}
}
