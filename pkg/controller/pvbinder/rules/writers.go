// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PhaseWriters returns the managers that wrote the phase of a volume, without their fields: what
// OtherWriter reads of the managed fields. Its own result may be passed again.
func PhaseWriters(fields []metav1.ManagedFieldsEntry) (writers []metav1.ManagedFieldsEntry) {
	for _, entry := range fields {
		if entry.Subresource == "status" && (entry.FieldsV1 == nil || hasPhase(entry.FieldsV1)) {
			entry.FieldsV1 = nil
			writers = append(writers, entry)
		}
	}
	return writers
}

func hasPhase(fields *metav1.FieldsV1) bool {
	text, err := fields.MarshalJSON()
	return err == nil && bytes.Contains(text, []byte(`"f:phase"`))
}

// OtherWriter returns the manager, other than own, that set the phase of a volume between two
// versions as only a PV controller does, empty for none. Schedulers write phase Bound. Times are
// compared for equality only, so clocks do not matter. Both versions have their PhaseWriters.
func OtherWriter(before, after *v1.PersistentVolume, own string) string {
	switch after.Status.Phase {
	case v1.VolumeAvailable, v1.VolumeReleased, v1.VolumeFailed:
	default:
		return ""
	}
	for _, writer := range after.ManagedFields {
		known := func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == writer.Manager && e.Time.Equal(writer.Time)
		}
		if writer.Manager != own && !slices.ContainsFunc(before.ManagedFields, known) {
			return writer.Manager
		}
	}
	return ""
}
