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

// State is the progress of a claim's binding. States are ordered: a binding advances or
// fails.
type State int

const (
	// Requested: selected-node is set, there is no volume yet.
	Requested State = iota
	// Unseen: the volume refers to the claim, but the PV controller may not have observed
	// that yet. It would mark a claim Lost that is bound to the volume now: its cache has
	// no volume of that name (phase Pending), or one whose claimRef has no UID (pre-bound
	// by its owner) or names another claim (and was removed since). The PV controller
	// processes claims and volumes in separate queues, in no order.
	Unseen
	// Claimed: the volume refers to the claim; the claim is not written yet.
	Claimed
	// ClaimBound: the claim refers to the volume, which is final; its status is not written
	// yet.
	ClaimBound
	// Bound: the claim's phase is Bound, and its pod can run. The volume's phase may not be
	// written yet.
	Bound
)

// String is the state's name, for logs.
func (s State) String() string {
	switch s {
	case Requested:
		return "Requested"
	case Unseen:
		return "Unseen"
	case Claimed:
		return "Claimed"
	case ClaimBound:
		return "ClaimBound"
	case Bound:
		return "Bound"
	default:
		return "Unknown"
	}
}

// Progress returns, from the newest versions observed (nil: none), the state of a binding
// whose step 1 is done, or why it has failed.
func (b Binding) Progress(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) (State, *Failure) {
	if why := b.sameClaim(claim); why != nil {
		return 0, why
	}
	if claim.Spec.VolumeName != "" && claim.Spec.VolumeName != b.Volume.Name {
		return 0, b.fail(ClaimBoundElsewhere, claim.Spec.VolumeName)
	}
	if why := b.sameVolume(volume); why != nil {
		return 0, why
	}
	if why := b.stillClaimed(volume); why != nil {
		return 0, why
	}
	switch {
	case IsBound(claim):
		return boundState(claim), nil
	case claim.Status.Phase == v1.ClaimLost:
		return 0, b.fail(ClaimLost, "")
	case claim.DeletionTimestamp != nil:
		return 0, b.fail(ClaimDeleting, "")
	case volume.DeletionTimestamp != nil:
		return 0, b.fail(VolumeDeleting, "")
	case b.AwaitsPVController(volume):
		return Unseen, nil
	}
	return Claimed, nil
}

// Progress returns, from the newest versions observed (nil: none), the state of a
// provisioning after selected-node was written, or why it has failed. volume is the one
// that the claim is bound to, else one that refers to the claim.
func (p Provision) Progress(node string, claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) (State, *Failure) {
	if why := sameClaim(p.Claim, claim, ""); why != nil {
		return 0, why
	}
	if IsBound(claim) {
		return p.boundProgress(node, claim, volume)
	}
	switch selected := claim.Annotations[AnnSelectedNode]; {
	case claim.Status.Phase == v1.ClaimLost:
		return 0, p.fail(ClaimLost, node, "")
	case claim.DeletionTimestamp != nil:
		return 0, p.fail(ClaimDeleting, node, "")
	case selected == "":
		return 0, p.fail(ProvisioningFailed, node, "")
	case selected != node:
		return 0, p.fail(SelectedElsewhere, node, selected)
	case volume == nil || !refersTo(volume.Spec.ClaimRef, claim) || volume.DeletionTimestamp != nil:
		return Requested, nil
	case !SeenByPVController(volume):
		return Unseen, nil
	}
	return Claimed, nil
}

// SeenByPVController reports, by the volume's phase, whether a PV controller has observed
// the volume. It would mark a claim Lost that is bound to a volume it has not observed.
func SeenByPVController(volume *v1.PersistentVolume) bool {
	return volume.Status.Phase != "" && volume.Status.Phase != v1.VolumePending
}

// boundProgress is for a claim that is already bound. The volume may be observed after
// its claim.
func (p Provision) boundProgress(node string, claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) (State, *Failure) {
	switch {
	case volume == nil && claim.Status.Phase == v1.ClaimLost:
		return 0, p.fail(ClaimLost, node, "")
	case volume == nil:
		return Unseen, nil
	}
	b := Binding{Claim: claim, Volume: volume}
	if why := b.stillClaimed(volume); why != nil {
		return 0, why
	}
	return boundState(claim), nil
}

func boundState(claim *v1.PersistentVolumeClaim) State {
	if claim.Status.Phase == v1.ClaimBound {
		return Bound
	}
	return ClaimBound
}
