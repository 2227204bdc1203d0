// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The resources that are written, for errors and metrics.
const (
	volumeResource       = "persistentvolumes"
	volumeStatusResource = "persistentvolumes/status"
	claimResource        = "persistentvolumeclaims"
	claimStatusResource  = "persistentvolumeclaims/status"
)

// putVolume writes the volume, and the response to the cache.
func (b *Binder) putVolume(ctx context.Context, pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	return b.appliedVolume(b.client.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}))
}

func (b *Binder) putVolumeStatus(ctx context.Context, pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	return b.appliedVolume(b.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{}))
}

func (b *Binder) putClaim(ctx context.Context, pvc *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
	return b.appliedClaim(b.client.CoreV1().PersistentVolumeClaims(pvc.Namespace).Update(ctx, pvc, metav1.UpdateOptions{}))
}

func (b *Binder) putClaimStatus(ctx context.Context, pvc *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
	return b.appliedClaim(b.client.CoreV1().PersistentVolumeClaims(pvc.Namespace).UpdateStatus(ctx, pvc, metav1.UpdateOptions{}))
}

func (b *Binder) getVolume(name string) func(context.Context) (*v1.PersistentVolume, error) {
	return func(ctx context.Context) (*v1.PersistentVolume, error) {
		return b.appliedVolume(b.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}))
	}
}

func (b *Binder) getClaim(namespace, name string) func(context.Context) (*v1.PersistentVolumeClaim, error) {
	return func(ctx context.Context) (*v1.PersistentVolumeClaim, error) {
		return b.appliedClaim(b.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{}))
	}
}

func (b *Binder) appliedVolume(pv *v1.PersistentVolume, err error) (*v1.PersistentVolume, error) {
	if err != nil {
		return nil, err
	}
	b.cache.ApplyVolume(pv)
	return pv, nil
}

func (b *Binder) appliedClaim(pvc *v1.PersistentVolumeClaim, err error) (*v1.PersistentVolumeClaim, error) {
	if err != nil {
		return nil, err
	}
	b.cache.ApplyClaim(pvc)
	return pvc, nil
}
