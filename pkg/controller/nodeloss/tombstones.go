// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/loop"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// addTombstone writes a tombstone of the volume to its node's report, which is created if it does
// not exist.
func (c *Controller) addTombstone(ctx context.Context, f *volumeFacts) error {
	tombstone := newTombstone(f)
	report, err := c.Reports.Get(ctx, f.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		report = &stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: f.node},
			Spec:       stowage.LocalDiskReportSpec{NodeName: f.node, Page: 1},
		}
		setTombstone(report, tombstone)
		_, err = c.Reports.Create(ctx, report, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return loop.ErrStale
		}
		return writeError("create LocalDiskReport "+f.node, err)
	}
	if err != nil {
		return apiError("get LocalDiskReport "+f.node, err)
	}
	if report.Spec.NodeName != f.node || report.Spec.Page != 1 {
		return fmt.Errorf("write a tombstone to LocalDiskReport %s: it is page %d of node %s", report.Name, report.Spec.Page, report.Spec.NodeName)
	}
	setTombstone(report, tombstone)
	_, err = c.Reports.Update(ctx, report, metav1.UpdateOptions{})
	return writeError("update LocalDiskReport "+f.node, err)
}

// setTombstone adds a tombstone and replaces an older one of the same disk.
func setTombstone(report *stowage.LocalDiskReport, tombstone stowage.Tombstone) {
	tombstones := slices.DeleteFunc(slices.Clone(report.Spec.Tombstones), func(t stowage.Tombstone) bool { return t.Identity == tombstone.Identity })
	tombstones = append(tombstones, tombstone)
	report.Spec.Tombstones = tombstones
	metav1.SetMetaDataLabel(&report.ObjectMeta, wellknown.TombstonesLabel, wellknown.TombstonesValue)
}

// tombstone returns the tombstone of the volume.
func newTombstone(f *volumeFacts) stowage.Tombstone {
	v := f.volume
	generation, err := strconv.ParseInt(v.Annotations[wellknown.GenerationAnnotation], 10, 64)
	if err != nil || generation < 0 {
		generation = localpv.FirstGeneration
	}
	since := metav1.NewTime(f.Now)
	tombstone := stowage.Tombstone{
		Identity: v.Annotations[wellknown.DiskIdentityAnnotation], Class: v.Spec.StorageClassName, Volume: v.Name, VolumeUID: string(v.UID),
		Generation: generation, State: stowage.TombstonePublished, Since: &since,
	}
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		tombstone.State = stowage.TombstoneRetained
	}
	if local, problem := localpv.VolumeOf(v, nil); problem == nil {
		tombstone.Name = local.Key.Name
	}
	if f.Release != nil && f.Release.ClaimUID == f.Volume.ClaimUID {
		at := metav1.NewTime(f.Release.At)
		tombstone.Released = &at
	}
	return stowage.Tombstones([]stowage.Tombstone{tombstone})[0]
}
