// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// Usage returns how many bytes of the capacity of the node that its spec names a volume uses. It
// does from the moment that the PavVolume is written, so that no two volumes are placed where one
// fits, until it is deleted. claim is the one that the volume is made for; nil if it does not exist.
func Usage(volume *stowage.PavVolume, claim *corev1.PersistentVolumeClaim) (int64, error) {
	switch {
	case volume.Status.Phase == stowage.PavVolumeDeleted, pending(volume) && NodeOf(volume, claim) != volume.Spec.NodeName:
		return 0, nil
	case volume.Status.Capacity != nil:
		return volume.Status.Capacity.Value(), nil
	}
	var made struct {
		Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
	}
	if err := json.Unmarshal(volume.Spec.Claim.Raw, &made); err != nil {
		return 0, fmt.Errorf("decode the claim of PavVolume %s: %w", volume.Name, err)
	}
	request := made.Spec.Resources.Requests[corev1.ResourceStorage]
	return request.Value(), nil
}

// Making reports whether a volume has no PersistentVolume yet.
func Making(volume *stowage.PavVolume) bool {
	switch volume.Status.Phase {
	case stowage.PavVolumeProvisioned, stowage.PavVolumeDeleting, stowage.PavVolumeDeleted:
		return false
	default:
		return true
	}
}

// Placed reports whether a volume exists on its node, or may.
func Placed(volume *stowage.PavVolume) bool {
	switch volume.Status.Phase {
	case "", stowage.PavVolumePending, stowage.PavVolumeValidating, stowage.PavVolumeDeleted:
		return false
	case stowage.PavVolumeCreating:
		return volume.Status.Step != nil
	default:
		return true
	}
}
