// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

// IsBound tells whether the claim's binding is complete.
func IsBound(claim *v1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[plan.AnnBindCompleted]
	return completed && claim.Spec.VolumeName != ""
}

// SelectedNode is the node chosen for provisioning the claim's volume, "" when
// none is.
func SelectedNode(claim *v1.PersistentVolumeClaim) string {
	return claim.Annotations[plan.AnnSelectedNode]
}
