// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// ErrChanged means that a volume has changed since it was found, and nothing was written: find
// again.
var ErrChanged = errors.New("the volume was changed or deleted meanwhile")

// change is a merge patch of metadata, which preserves fields that this version does not know.
// With UID and resource version it fails if the volume has changed.
type change struct {
	UID             types.UID          `json:"uid"`
	ResourceVersion string             `json:"resourceVersion"`
	Labels          map[string]*string `json:"labels,omitempty"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
	// The lists are replaced as a whole.
	Finalizers      []string                 `json:"finalizers"`
	OwnerReferences *[]metav1.OwnerReference `json:"ownerReferences,omitempty"`
}

// changeOf changes nothing yet.
func changeOf(pv *corev1.PersistentVolume) change {
	return change{
		UID: pv.UID, ResourceVersion: pv.ResourceVersion, Finalizers: append([]string{}, pv.Finalizers...),
		Labels: map[string]*string{}, Annotations: map[string]*string{},
	}
}

// write patches a volume, and returns it as patched; ErrChanged if it has changed since the
// change was planned.
func write(ctx context.Context, client kubernetes.Interface, name string, c change) (*corev1.PersistentVolume, error) {
	data, err := json.Marshal(map[string]change{"metadata": c})
	if err != nil {
		return nil, fmt.Errorf("encode a patch of volume %s: %w", name, err)
	}
	pv, err := client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
	return pv, writeError("patch volume "+name, err)
}

// writeError wraps the error of a conditional write; ErrChanged for a conflict or a missing object.
func writeError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		err = ErrChanged
	}
	return fmt.Errorf("%s: %w", what, err)
}

// withdraw deletes an unclaimed volume; ErrChanged if it has a claim meanwhile. It is no error
// if the volume is gone already.
func withdraw(ctx context.Context, client kubernetes.Interface, pv *corev1.PersistentVolume) error {
	err := client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pv.UID, ResourceVersion: &pv.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return writeError("delete volume "+pv.Name, err)
}
