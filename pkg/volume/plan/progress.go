// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import v1 "k8s.io/api/core/v1"

// State is how far the binding of a claim has come. States are ordered: a
// binding only goes up, or fails.
type State int

const (
	// Requested: selected-node is set, there is no volume yet.
	Requested State = iota
	// Unseen: the volume refers to the claim, but the PV controller may not
	// know it as the claim's yet. A claim that is bound to it now could be
	// marked Lost: the PV controller has no volume of that name in its cache
	// (phase Pending), or one whose claimRef has no UID (pre-bound by its
	// owner) or is another claim's (and was taken back since). Claims and volumes
	// reach it by separate queues, in no order.
	Unseen
	// Claimed: the volume refers to the claim; the claim is open.
	Claimed
	// ClaimBound: the claim refers to the volume for good; its status is open.
	ClaimBound
	// Bound: the claim's phase is Bound, and its pod can run. The volume's phase may
	// be open.
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

// Progress tells from the newest versions seen (nil: none) where a binding
// stands whose step 1 is done, or why it has failed.
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
	case isBound(claim):
		return boundState(claim), nil
	case claim.Status.Phase == v1.ClaimLost:
		return 0, b.fail(ClaimLost, "")
	case claim.DeletionTimestamp != nil:
		return 0, b.fail(ClaimDeleting, "")
	case volume.DeletionTimestamp != nil:
		return 0, b.fail(VolumeDeleting, "")
	case b.Open(volume):
		return Unseen, nil
	}
	return Claimed, nil
}

// Progress tells from the newest versions seen (nil: none) where provisioning
// stands after selected-node was written, or why it has failed. volume is the
// one that the claim is bound to, else one that refers to the claim.
func (p Provision) Progress(node string, claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) (State, *Failure) {
	if why := sameClaim(p.Claim, claim, ""); why != nil {
		return 0, why
	}
	if isBound(claim) {
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
	case !Noticed(volume):
		return Unseen, nil
	}
	return Claimed, nil
}

// Noticed tells whether a PV controller has taken note of the volume, by its
// phase. A claim that is bound to one that none has would be marked Lost.
func Noticed(volume *v1.PersistentVolume) bool {
	return volume.Status.Phase != "" && volume.Status.Phase != v1.VolumePending
}

// boundProgress is for a claim that somebody has bound. The volume may be seen
// after its claim.
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
