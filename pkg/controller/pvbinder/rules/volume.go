// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

// DecideVolume returns the next action for a volume.
func DecideVolume(f *VolumeFacts) Decision {
	volume, ref := f.Volume, f.Volume.Spec.ClaimRef
	if want := migratedVolume(volume, f.Drivers); want != nil {
		return Decision{Do: WriteVolume, Volume: want}
	}
	switch {
	case (ref == nil || ref.UID == "") && f.Bound != nil && restorable(volume, f.Bound):
		return Decision{Do: DecideOnClaim, Claim: f.Bound} // it restores the claimRef
	case ref == nil || ref.UID == "":
		return phase(volume, v1.VolumeAvailable)
	case f.Claim == nil || f.Claim.UID != ref.UID:
		return released(f, f.ClaimRead)
	case f.Claim.Spec.VolumeName == "":
		return unfinished(f)
	case f.Claim.Spec.VolumeName == volume.Name:
		return phase(volume, v1.VolumeBound)
	case provisioned(volume) && volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete:
		return released(f, true) // the name of a claim's volume is final: this one is in excess
	default:
		return Decision{Do: WriteVolume, Volume: unbound(volume)}
	}
}

// phase sets the phase of a volume.
func phase(volume *v1.PersistentVolume, phase v1.PersistentVolumePhase, events ...Event) Decision {
	if volume.Status.Phase == phase {
		return Decision{Do: None, Events: events}
	}
	want := volume.DeepCopy()
	want.Status.Phase, want.Status.Message = phase, ""
	return Decision{Do: WriteVolumeStatus, Volume: want, Events: events}
}

// unfinished is for a volume whose claim has no volume yet: the claim is decided about.
func unfinished(f *VolumeFacts) Decision {
	d := Decision{Do: DecideOnClaim, Claim: f.Claim}
	if problem := misfit(f.Volume, f.Claim); problem != "" {
		d.Events = []Event{{
			OnVolume: true, Warning: true, Reason: ReasonVolumeMismatch,
			Note: fmt.Sprintf("Cannot bind PersistentVolume to requested PersistentVolumeClaim %q: %s", f.Claim.Namespace+"/"+f.Claim.Name, problem),
		}}
	}
	return d
}

// released is for a volume whose claim does not exist, or has another volume. certain: that needs no
// confirmation.
func released(f *VolumeFacts, certain bool) Decision {
	switch volume := f.Volume; {
	case volume.Status.Phase == v1.VolumeReleased || volume.Status.Phase == v1.VolumeFailed:
		return reclaim(f)
	case !certain:
		return Decision{Do: ReadClaim}
	default:
		return phase(volume, v1.VolumeReleased)
	}
}

// reclaim is for a Released or Failed volume. Provisioners delete volumes; here only the impossible
// is reported.
func reclaim(f *VolumeFacts) Decision {
	volume := f.Volume
	policy := volume.Spec.PersistentVolumeReclaimPolicy
	switch {
	case volume.Annotations[annMigratedTo] != "":
		return Decision{Do: None}
	case policy == v1.PersistentVolumeReclaimRecycle:
		return phase(volume, v1.VolumeFailed, Event{
			OnVolume: true, Warning: true, Reason: ReasonVolumeFailedRecycle,
			Note: "reclaim policy Recycle is not supported: delete the volume, or clean it and remove its claimRef to make it available",
		})
	case policy == v1.PersistentVolumeReclaimDelete && !externallyDeleted(volume):
		return Decision{Do: None, Events: []Event{{
			OnVolume: true, Warning: true, Reason: ReasonVolumeFailedDelete,
			Note: "reclaim policy is Delete and no external provisioner is in charge of the volume: delete its storage and then the volume",
		}}}
	default:
		return Decision{Do: None}
	}
}

// externallyDeleted reports whether an external provisioner deletes the volume's storage.
func externallyDeleted(volume *v1.PersistentVolume) bool {
	if name := volume.Annotations[annProvisionedBy]; name != "" {
		return !strings.HasPrefix(name, inTreePrefix)
	}
	return volume.Spec.CSI != nil
}

func provisioned(volume *v1.PersistentVolume) bool {
	_, ok := volume.Annotations[annProvisionedBy]
	return ok
}

// unbound returns a copy of the volume without the reference to its claim. What its owner reserved
// by name stays reserved.
func unbound(volume *v1.PersistentVolume) *v1.PersistentVolume {
	want := volume.DeepCopy()
	if _, ours := volume.Annotations[plan.AnnBoundByController]; !ours {
		want.Spec.ClaimRef.UID = ""
		return want
	}
	want.Spec.ClaimRef = nil
	delete(want.Annotations, plan.AnnBoundByController)
	return want
}
