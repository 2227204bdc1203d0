// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// Claim binds a claim to the volume of a slot, once that is Available, and returns
// the volume. The claim has the volume's name.
func (n *Node) Claim(class, name string) *corev1.PersistentVolume {
	n.t.Helper()
	volume := n.WaitPhase(class, name, corev1.VolumeAvailable)
	claim := n.Env.PVC(volume.Name).Class(class).Request("1Mi").VolumeName(volume.Name)
	if *volume.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		claim.Block()
	}
	n.Env.CreatePVC(claim)
	return n.WaitVolume(class, name, "bound to its claim", func(v *corev1.PersistentVolume) bool {
		return v != nil && v.UID == volume.UID && v.Status.Phase == corev1.VolumeBound
	})
}

// Unclaim deletes the claim that Claim made.
func (n *Node) Unclaim(volume *corev1.PersistentVolume) {
	n.t.Helper()
	n.Env.DeletePVC(volume.Name)
}

// SetPolicy changes a volume's reclaim policy.
func (n *Node) SetPolicy(volume *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy) {
	n.t.Helper()
	n.Patch(volume, fmt.Sprintf(`{"spec":{"persistentVolumeReclaimPolicy":%q}}`, policy))
}

// Patch changes a volume, as an administrator does.
func (n *Node) Patch(volume *corev1.PersistentVolume, text string, subresources ...string) {
	n.t.Helper()
	_, err := n.Env.Client.CoreV1().PersistentVolumes().Patch(n.Env.Context(), volume.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
	n.do(err)
}

// Release is Unclaim, and waits until the PersistentVolume controller has handled it: the
// volume is Released, or deleted already.
func (n *Node) Release(volume *corev1.PersistentVolume) {
	n.t.Helper()
	n.Unclaim(volume)
	n.Env.Wait("volume "+volume.Name+" to be released", func() bool {
		return !slices.ContainsFunc(n.Env.AllPVs(), func(v *corev1.PersistentVolume) bool {
			return v.UID == volume.UID && v.Status.Phase == corev1.VolumeBound
		})
	})
}

// Delete deletes a volume, as an administrator may, and does not wait for the deletion.
func (n *Node) Delete(volume *corev1.PersistentVolume) {
	n.t.Helper()
	if err := n.Env.Client.CoreV1().PersistentVolumes().Delete(n.Env.Context(), volume.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		n.do(err)
	}
}

// Published are the names of the slots of a class that have a volume, in order. A slot with
// two volumes is listed twice.
func (n *Node) Published(class string) []string {
	n.t.Helper()
	list, err := n.Env.Client.CoreV1().PersistentVolumes().List(n.Env.Context(), metav1.ListOptions{LabelSelector: localpv.Selector(n.Name)})
	n.do(err)
	var names []string
	for _, v := range list.Items {
		if v.Spec.StorageClassName == class {
			names = append(names, filepath.Base(localpv.PathOf(&v)))
		}
	}
	slices.Sort(names)
	return names
}
