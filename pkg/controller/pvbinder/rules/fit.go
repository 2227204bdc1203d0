// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// misfit returns why the volume cannot serve the claim, empty if it can. The class does not matter.
func misfit(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) string {
	r, err := match.NewRequest(claim)
	if err != nil {
		return err.Error()
	}
	v := match.NewVolume(volume)
	if r.FitsSpec(v) {
		return ""
	}
	switch {
	case volume.DeletionTimestamp != nil:
		return "the volume is marked for deletion"
	case v.Bytes < r.Bytes:
		return "requested PV is too small"
	case v.AttributesClass != r.AttributesClass:
		return "volumeAttributesClassName does not match"
	case v.Block != r.Block:
		return "incompatible volumeMode"
	case !v.AccessModes.Contains(r.AccessModes):
		return "incompatible accessMode"
	default:
		return "its disk is " + volume.Annotations[wellknown.DiskAnnotation]
	}
}
