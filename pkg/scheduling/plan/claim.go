// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BindClaim is step 2, the point of no return: it sets the volume's name and
// bind-completed on the claim. spec.volumeName can be set only once. live is the newest
// known version, or the one read after a conflict (nil: not found). If the claim is
// already bound to the volume, by any writer, there is nothing to write.
//
// bound-by-controller means that the user did not choose volumeName.
func (b Binding) BindClaim(live *v1.PersistentVolumeClaim) (want *v1.PersistentVolumeClaim, write bool, why *Failure) {
	if why := b.sameClaim(live); why != nil {
		return nil, false, why
	}
	selected := live.Annotations[AnnSelectedNode]
	switch {
	case live.Spec.VolumeName == b.Volume.Name && IsBound(live):
		return live, false, nil
	case live.Spec.VolumeName != "" && live.Spec.VolumeName != b.Volume.Name:
		return nil, false, b.fail(ClaimBoundElsewhere, live.Spec.VolumeName)
	case live.DeletionTimestamp != nil:
		return nil, false, b.fail(ClaimDeleting, "")
	case live.Status.Phase == v1.ClaimLost:
		return nil, false, b.fail(ClaimLost, "")
	case selected != "" && selected != b.Claim.Annotations[AnnSelectedNode]:
		return nil, false, b.fail(SelectedElsewhere, selected)
	case !b.sameSpec(live):
		return nil, false, b.fail(ClaimChanged, "")
	}
	want = live.DeepCopy()
	if live.Spec.VolumeName == "" {
		want.Spec.VolumeName = b.Volume.Name
		if _, set := want.Annotations[AnnBoundByController]; !set {
			metav1.SetMetaDataAnnotation(&want.ObjectMeta, AnnBoundByController, "yes")
		}
	}
	if _, set := want.Annotations[AnnBindCompleted]; !set {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, AnnBindCompleted, "yes")
	}
	return want, true, nil
}

// ClaimBound is step 3 for the claim: its status as the PV controller writes it when a
// claim becomes Bound to the volume. This also repairs a claim that a PV controller with
// an outdated view of the volume has marked Lost.
func (b Binding) ClaimBound(live *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) (want *v1.PersistentVolumeClaim, write bool, why *Failure) {
	if why := b.sameClaim(live); why != nil {
		return nil, false, why
	}
	switch {
	case live.Spec.VolumeName == "":
		return nil, false, b.fail(ClaimLost, "")
	case live.Spec.VolumeName != b.Volume.Name:
		return nil, false, b.fail(ClaimBoundElsewhere, live.Spec.VolumeName)
	}
	want = live.DeepCopy()
	want.Status.Phase = v1.ClaimBound
	want.Status.AccessModes = append([]v1.PersistentVolumeAccessMode(nil), volume.Spec.AccessModes...)
	if live.Status.Phase != v1.ClaimBound {
		// The capacity of a claim that is already Bound belongs to the resizer: it may
		// differ from the volume's on purpose.
		setCapacity(want, volume)
	}
	if live.Status.Phase == v1.ClaimPending {
		want.Status.CurrentVolumeAttributesClassName = clone(volume.Spec.VolumeAttributesClassName)
	}
	return want, !equality.Semantic.DeepEqual(live.Status, want.Status), nil
}

// setCapacity sets the volume's capacity or, while its file system is smaller than the
// volume, the size of the file system.
func setCapacity(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) {
	size, ok := volume.Spec.Capacity[v1.ResourceStorage]
	if !ok {
		return
	}
	if pre, resizing := volume.Annotations[AnnPreResizeCapacity]; resizing {
		if parsed, err := resource.ParseQuantity(pre); err == nil {
			size = parsed
		}
		if claim.Status.Capacity == nil {
			claim.Status.Capacity = v1.ResourceList{}
		}
		claim.Status.Capacity[v1.ResourceStorage] = size
		return
	}
	if has, ok := claim.Status.Capacity[v1.ResourceStorage]; !ok || has.Cmp(size) != 0 {
		claim.Status.Capacity = volume.Spec.Capacity.DeepCopy()
	}
}

func (b Binding) sameClaim(live *v1.PersistentVolumeClaim) *Failure {
	return sameClaim(b.Claim, live, b.Volume.Name)
}

// sameSpec compares the specs except for volumeName.
func (b Binding) sameSpec(live *v1.PersistentVolumeClaim) bool {
	was, is := b.Claim.Spec, live.Spec
	was.VolumeName, is.VolumeName = "", ""
	return equality.Semantic.DeepEqual(was, is)
}

func sameClaim(reserved, live *v1.PersistentVolumeClaim, volume string) *Failure {
	switch {
	case live == nil:
		return &Failure{Code: ClaimGone, Claim: claimName(reserved), Volume: volume}
	case live.UID != reserved.UID:
		return &Failure{Code: ClaimReplaced, Claim: claimName(reserved), Volume: volume}
	}
	return nil
}

// IsBound reports whether the claim's binding is complete: its volumeName is final.
func IsBound(claim *v1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[AnnBindCompleted]
	return completed && claim.Spec.VolumeName != ""
}

func clone(s *string) *string {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}
