// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
)

// Facts are what is known about a claim of a PavProvisioner and its volume. Decide does not change
// them.
type Facts struct {
	Now time.Time
	// Live: Claim, Volume, PV, and that there is no Node, are from the API server. Else they are from
	// informers, and a step that cannot be undone is preceded by Read.
	Live bool
	// Claim is the one that ClaimOf names, or else, unless the PersistentVolume refers to one, a claim
	// whose volumeName is the name of the volume; nil if neither exists.
	Claim *corev1.PersistentVolumeClaim
	// Class is the claim's; nil if it does not exist.
	Class *storagev1.StorageClass
	// Provisioner is the one that the class or the volume names; nil if it does not exist.
	Provisioner *Provisioner
	// Volume is nil if it does not exist.
	Volume *stowage.PavVolume
	// Made is what the volume's spec holds; nil without a volume.
	Made *Made
	// Evaluated is the step that EvaluatedStep names, by the revision that RevisionOf names.
	Evaluated Evaluated
	// Pod is the helper pod under the namespace and name that status.step of the volume has; nil
	// if the API server has none.
	Pod *podstep.Pod
	// PV is the PersistentVolume with the name of the volume.
	PV *corev1.PersistentVolume
	// HandleUser describes what else has the volume's handle: another PersistentVolume of the
	// driver, or an older volume of the provisioner. The handle is that of the status, or else of
	// Evaluated.
	HandleUser string
	// NoCapacity is why the node has no capacity for the volume, which is to be created next; empty if it
	// has, or capacity is not tracked.
	NoCapacity string
	// StagedOn are the nodes on which the volume is staged.
	StagedOn []string
	// Node is the one that NodeOf names; nil if it does not exist.
	Node *corev1.Node
	// Limits are of the step that EvaluatedStep names.
	Limits podstep.Limits
}

// Provisioner is a PavProvisioner.
type Provisioner struct {
	Name string
	UID  types.UID
	// Deleting: it accepts no new volumes.
	Deleting bool
	// Problem is why it is not accepted, for users; empty if it is, or is being deleted.
	Problem string
	// Dynamic: provisioningModes has Dynamic.
	Dynamic bool
	// Revision is the name of the ControllerRevision with the last accepted spec; empty if none was
	// accepted.
	Revision string
	Access   Access
}

// Made is what a volume is made from, as the spec of its PavVolume and the revision have it.
type Made struct {
	Claim *corev1.PersistentVolumeClaim
	Class *storagev1.StorageClass
	// Problem is why the revision cannot be read, for users; empty if it can.
	Problem string
	// Access is that of the revision.
	Access Access
}

// Access is where a provisioner's volumes are accessible.
type Access struct {
	// SelectedNode: only on the node that the scheduler selected for the claim.
	SelectedNode bool
	// TopologyKeys: on nodes with the same values of these labels as the selected node.
	TopologyKeys []string
}

// Anywhere reports whether volumes are accessible on all nodes.
func (a Access) Anywhere() bool { return !a.SelectedNode && len(a.TopologyKeys) == 0 }

// Keys returns the labels of the selected node that become the volume's node affinity.
func (a Access) Keys() []string {
	if a.SelectedNode {
		return []string{corev1.LabelHostname}
	}
	return a.TopologyKeys
}

// Evaluated is a step of a provisioner's spec, evaluated for a volume.
type Evaluated struct {
	// Problem is why the step cannot be evaluated; empty if it can.
	Problem string
	// HasPod: the step has a pod, to be created in Namespace.
	HasPod    bool
	Namespace string
	// VolumeModes, AccessModes, MinCapacity and MaxCapacity, in bytes, are what Validation allows;
	// a capacity that is nil does not limit.
	VolumeModes              []corev1.PersistentVolumeMode
	AccessModes              []corev1.PersistentVolumeAccessMode
	MinCapacity, MaxCapacity *int64
	// Handle and Capacity, in bytes, are what Creation determines; nil if the pod reports it.
	Handle   *string
	Capacity *int64
}

// VolumeName is the name of the PavVolume and the PersistentVolume of a claim, and the handle of a
// volume for which neither spec nor pod determine one.
func VolumeName(claim types.UID) string { return "pvc-" + string(claim) }

// ClaimOf returns which claim Facts.Claim has to be: that of the PersistentVolume if it refers to
// one, or else the one that the volume was made for.
func ClaimOf(volume *stowage.PavVolume, pv *corev1.PersistentVolume) stowage.ClaimReference {
	if pv != nil && pv.Spec.ClaimRef != nil && volume.Status.Phase == stowage.PavVolumeProvisioned {
		ref := pv.Spec.ClaimRef
		return stowage.ClaimReference{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
	}
	return volume.Spec.ClaimRef
}

// NodeOf returns which node Facts.Node has to be: the selected node of the attempt, or of the claim
// if no attempt has begun; empty if none is selected.
func NodeOf(volume *stowage.PavVolume, claim *corev1.PersistentVolumeClaim) string {
	switch {
	case !pending(volume):
		return volume.Spec.NodeName
	case claim != nil:
		return claim.Annotations[AnnSelectedNode]
	default:
		return ""
	}
}

// EvaluatedStep returns which step Facts.Evaluated and Facts.Limits have to be of; empty if none is
// needed.
func EvaluatedStep(volume *stowage.PavVolume) stowage.PavStepName {
	if pending(volume) {
		return stowage.PavStepValidation
	}
	switch volume.Status.Phase {
	case stowage.PavVolumeValidating:
		return stowage.PavStepValidation
	case stowage.PavVolumeCreating:
		return stowage.PavStepCreation
	case stowage.PavVolumeReverting, stowage.PavVolumeDeleting:
		return stowage.PavStepDeletion
	default:
		return ""
	}
}

// RevisionOf returns by which revision the step that EvaluatedStep names is evaluated, given the
// provisioner's last accepted one; empty if there is none.
func RevisionOf(volume *stowage.PavVolume, last string) string {
	switch {
	case pending(volume):
		return last
	case volume.Status.Step != nil:
		return volume.Status.Step.Revision
	case volume.Spec.UseRevision == stowage.UseRevisionLatest && EvaluatedStep(volume) == stowage.PavStepDeletion:
		return last
	default:
		return volume.Spec.Revision
	}
}

// pending reports whether nothing of a volume exists.
func pending(volume *stowage.PavVolume) bool {
	return volume == nil || volume.Status.Phase == stowage.PavVolumePending || volume.Status.Phase == ""
}

// Holds reports whether one volume has the handle of another, so that the other one must neither
// become a PersistentVolume nor be deleted. One that has a PersistentVolume is held by no volume that
// has none, which would wait for it in turn. Of two that are being made, the older one does.
func Holds(one, other *stowage.PavVolume) bool {
	uses := func(v *stowage.PavVolume) bool {
		return v.Status.Phase == stowage.PavVolumeProvisioned || v.Status.Phase == stowage.PavVolumeDeleting
	}
	switch {
	case one.Spec.Provisioner != other.Spec.Provisioner || one.UID == other.UID || one.Status.Phase == stowage.PavVolumeDeleted:
		return false
	case uses(one) != uses(other):
		return uses(one)
	case one.Status.Phase != other.Status.Phase && (one.Status.Phase == stowage.PavVolumeProvisioned || other.Status.Phase == stowage.PavVolumeCreating):
		return true
	case one.CreationTimestamp.Equal(&other.CreationTimestamp):
		return one.Name < other.Name
	default:
		return one.CreationTimestamp.Before(&other.CreationTimestamp)
	}
}
