// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Volume is a PersistentVolume compiled for matching. It is immutable and
// safe for concurrent use.
type Volume struct {
	// Name is the volume's name, unique in the cluster.
	Name string
	// Class is the storage class; the beta annotation wins over the spec.
	Class string
	// Bytes is the capacity, rounded up to whole bytes.
	Bytes int64
	// Block: spec.volumeMode is Block; nil means Filesystem.
	Block bool
	// AttributesClass is the VolumeAttributesClass, empty for none.
	AttributesClass string
	// AccessModes are the modes the volume offers.
	AccessModes AccessModes
	// PV is the object that the volume was compiled from, usually shared with an
	// informer's cache: read only.
	PV *v1.PersistentVolume
	// DiskProblem is why no claim may use the volume although the object exists: its disk is not
	// usable. Fits if no problem is known.
	DiskProblem ReasonCode

	deleting bool
}

// NewVolume compiles a PersistentVolume, which it keeps and does not change.
func NewVolume(pv *v1.PersistentVolume) *Volume {
	return &Volume{
		Name:            pv.Name,
		Class:           VolumeClass(pv),
		Bytes:           storageBytes(pv.Spec.Capacity),
		Block:           isBlock(pv.Spec.VolumeMode),
		AttributesClass: orEmpty(pv.Spec.VolumeAttributesClassName),
		AccessModes:     AccessModesOf(pv.Spec.AccessModes),
		PV:              pv,
		DiskProblem:     DiskProblem(pv),
		deleting:        pv.DeletionTimestamp != nil,
	}
}

// Free reports whether any claim may take the volume: the PV controller has observed it
// (phase Available), it has no claimRef, no problem of its disk is known, and it is not
// being deleted.
func (v *Volume) Free() bool {
	return v.PV.Status.Phase == v1.VolumeAvailable && v.PV.Spec.ClaimRef == nil && v.DiskProblem == Fits && !v.deleting
}

// Free is Volume.Free for a volume that is not compiled.
func Free(pv *v1.PersistentVolume) bool {
	return pv.Status.Phase == v1.VolumeAvailable && pv.Spec.ClaimRef == nil && DiskProblem(pv) == Fits && pv.DeletionTimestamp == nil
}

// DiskProblem returns the problem that the local provisioner has written on the volume:
// DiskMissing, DiskFailing, DiskUnproven or DiskReplaced; Fits if there is none. Unknown
// values count as DiskReplaced, the most severe.
func DiskProblem(pv *v1.PersistentVolume) ReasonCode {
	switch disk.Mark(pv.Annotations[wellknown.DiskAnnotation]) {
	case disk.Unmarked:
		return Fits
	case disk.MarkMissing:
		return DiskMissing
	case disk.MarkFailing:
		return DiskFailing
	case disk.MarkUnproven:
		return DiskUnproven
	default:
		return DiskReplaced
	}
}

// labels returns the volume's labels, read only.
func (v *Volume) labels() labels.Set { return v.PV.Labels }

// VolumeClass returns the storage class of a volume. The beta annotation wins
// over spec.storageClassName even when it is empty.
func VolumeClass(pv *v1.PersistentVolume) string {
	if class, ok := pv.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return pv.Spec.StorageClassName
}

// ClaimClass returns the storage class of a claim, empty for none. The beta
// annotation wins over spec.storageClassName even when it is empty.
func ClaimClass(claim *v1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return orEmpty(claim.Spec.StorageClassName)
}

// storageBytes returns the storage quantity rounded up to whole bytes, as the PV
// controller compares it, saturated to the range of int64.
func storageBytes(list v1.ResourceList) int64 {
	quantity := list[v1.ResourceStorage]
	switch {
	case quantity.CmpInt64(math.MaxInt64) >= 0:
		return math.MaxInt64
	case quantity.CmpInt64(math.MinInt64) <= 0:
		return math.MinInt64
	}
	return quantity.Value()
}

func isBlock(mode *v1.PersistentVolumeMode) bool {
	return mode != nil && *mode == v1.PersistentVolumeBlock
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
