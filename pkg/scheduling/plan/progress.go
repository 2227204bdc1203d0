// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import v1 "k8s.io/api/core/v1"

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
