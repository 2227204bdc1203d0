// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
)

// Facts are what is known about a PavStaging. Decide does not change them.
type Facts struct {
	Now time.Time
	// Live: Staging, PVs, Claim and Volume are from the API server, and so is that there is no Node. Else they
	// are from informers, and a step that cannot be undone is preceded by Read.
	Live bool
	// Staging is nil if it does not exist.
	Staging *stowage.PavStaging
	// PVs are the PersistentVolumes of the driver that have the handle.
	PVs []*corev1.PersistentVolume
	// Claim is the one that is bound to the only PersistentVolume; nil if it does not exist.
	Claim *corev1.PersistentVolumeClaim
	// Used: a pod that is bound to the node, and has not ended, uses the claim.
	Used bool
	// Volume is the PavVolume of the PersistentVolume; nil if the volume is static.
	Volume *stowage.PavVolume
	// Node is nil if it does not exist.
	Node *corev1.Node
	// StagedOn is another node that has the volume, or may have; empty if none has.
	StagedOn string
	// Provisioner is nil if it does not exist.
	Provisioner *Provisioner
	// Evaluated is the step that EvaluatedStep names, by the revision that RevisionOf names.
	Evaluated Evaluated
	// Pod is the helper pod under the namespace and name that status.step has; nil if the API server
	// has none.
	Pod *podstep.Pod
	// Limits are of the step that EvaluatedStep names.
	Limits podstep.Limits
}

// Provisioner is a PavProvisioner.
type Provisioner struct {
	Name string
	// Problem is why it is not accepted, for users; empty if it is.
	Problem string
	// Static: provisioningModes has Static.
	Static bool
	// Revision is the name of the ControllerRevision with the last accepted spec; empty if none was
	// accepted.
	Revision string
	// MountOptions are those that PersistentVolumes may have.
	MountOptions []string
	// NeedsFSType: fsGroupPolicy is ReadWriteOnceWithFSType.
	NeedsFSType bool
}

// Evaluated is a step of a provisioner's spec, evaluated for the volume.
type Evaluated struct {
	// Problem is why the step cannot be evaluated; empty if it can.
	Problem string
	// HasPod: the step has a pod, to be created in Namespace.
	HasPod    bool
	Namespace string
	// Devices are the block devices that the staging pod may make its volume.
	Devices []string
	// VolumeModes, AccessModes, MinCapacity and MaxCapacity, in bytes, are what Validation allows;
	// a capacity that is nil does not limit.
	VolumeModes              []corev1.PersistentVolumeMode
	AccessModes              []corev1.PersistentVolumeAccessMode
	MinCapacity, MaxCapacity *int64
}

// PV returns the only PersistentVolume; nil if there is none, or more than one.
func (f *Facts) PV() *corev1.PersistentVolume {
	if len(f.PVs) != 1 {
		return nil
	}
	return f.PVs[0]
}

// EvaluatedStep returns which step Facts.Evaluated and Facts.Limits have to be of; empty if none is
// needed.
func EvaluatedStep(s *stowage.PavStaging) stowage.PavStepName {
	switch s.Status.Phase {
	case stowage.PavStagingValidating:
		return stowage.PavStepValidation
	case stowage.PavStagingStaging, stowage.PavStagingStaged:
		return stowage.PavStepStaging
	case stowage.PavStagingUnstaging:
		if step := s.Status.Step; step != nil && step.Name == stowage.PavStepStaging {
			return "" // the staging pod is removed first
		}
		return stowage.PavStepUnstaging
	default:
		return ""
	}
}

// RevisionOf returns by which revision the step is evaluated, given the provisioner's last accepted
// one and the PavVolume, which may be nil; empty if there is none.
func RevisionOf(s *stowage.PavStaging, last string, volume *stowage.PavVolume) string {
	switch {
	case s.Status.Step != nil:
		return s.Status.Step.Revision
	case last != "" && EvaluatedStep(s) == stowage.PavStepUnstaging && (s.Spec.UseRevision == stowage.UseRevisionLatest || volume != nil && volume.Spec.UseRevision == stowage.UseRevisionLatest):
		return last
	default:
		return s.Status.Revision
	}
}

// OneNode reports whether a volume can be used on one node at a time (isMultiAttachForbidden of the
// attach-detach controller, k8s.io/kubernetes/pkg/controller/volume/attachdetach/util).
func OneNode(pv *corev1.PersistentVolume) bool {
	return !slices.ContainsFunc(pv.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

// Holds reports whether the node of a staging has the volume, or may have.
func Holds(s *stowage.PavStaging) bool {
	switch s.Status.Phase {
	case "", stowage.PavStagingPending:
		return false
	default:
		return true
	}
}

// Uses returns the names of the claims of a pod that has not ended and is bound to a node.
func Uses(pod *corev1.Pod) []types.NamespacedName {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var claims []types.NamespacedName
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "-" + v.Name})
		}
	}
	return claims
}
