// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import v1 "k8s.io/api/core/v1"

// Annotations that tell how far a claim is, as the PV controller, the
// provisioners and the schedulers read them (component-helpers/storage/volume).
const (
	// AnnBindCompleted on a claim: its binding is complete. Any value counts.
	AnnBindCompleted = "pv.kubernetes.io/bind-completed"
	// AnnSelectedNode on a claim: the node that a scheduler chose for the first
	// pod; provisioning may begin.
	AnnSelectedNode = "volume.kubernetes.io/selected-node"
)

// IsBound tells whether the claim's binding is complete.
func IsBound(claim *v1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[AnnBindCompleted]
	return completed && claim.Spec.VolumeName != ""
}

// SelectedNode is the node chosen for provisioning the claim's volume, "" when
// none is.
func SelectedNode(claim *v1.PersistentVolumeClaim) string { return claim.Annotations[AnnSelectedNode] }

// ClassOf is the name of the claim's storage class, "" for none. The beta
// annotation wins over the field.
func ClassOf(claim *v1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}
