// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// DecideClaim returns the next action for a claim.
func DecideClaim(f *ClaimFacts) Decision {
	claim := f.Claim
	if want := migratedClaim(claim, f.Drivers); want != nil {
		return Decision{Do: WriteClaim, Claim: want}
	}
	_, complete := claim.Annotations[plan.AnnBindCompleted]
	switch {
	case complete:
		return decideBound(f)
	case claim.DeletionTimestamp != nil:
		return Decision{Do: None} // it gets no volume
	case claim.Status.Phase == v1.ClaimLost:
		return pending(claim)
	case claim.Spec.VolumeName != "":
		return decideNamed(f)
	default:
		return decideUnbound(f)
	}
}

// decideBound is for a claim whose binding is complete: it has its volume, or has lost it.
func decideBound(f *ClaimFacts) Decision {
	claim, volume := f.Claim, f.Volume
	lost := claim.Status.Phase == v1.ClaimLost
	switch {
	case claim.Spec.VolumeName == "":
		return lose(claim, ReasonClaimLost, "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	case volume != nil && restorable(volume, claim):
		return bind(claim, volume)
	case !lost && !f.VolumeRead:
		return Decision{Do: ReadVolume}
	case volume == nil:
		return lose(claim, ReasonClaimLost, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	default:
		return lose(claim, ReasonClaimMisbound, "Two claims are bound to the same volume, this one is bound incorrectly")
	}
}

// restorable reports whether the volume is the claim's, or belongs to no claim.
func restorable(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	return volume.Spec.ClaimRef == nil || match.RefersTo(volume.Spec.ClaimRef, claim)
}

// decideNamed is for a claim whose user chose the volume.
func decideNamed(f *ClaimFacts) Decision {
	claim, volume := f.Claim, f.Volume
	switch {
	case volume == nil:
		return pending(claim, Event{Reason: ReasonFailedBinding, Note: fmt.Sprintf("volume %q not found", claim.Spec.VolumeName)})
	case !restorable(volume, claim):
		return pending(claim, Event{Warning: true, Reason: ReasonFailedBinding, Note: fmt.Sprintf("volume %q already bound to a different claim.", volume.Name)})
	case volume.Spec.ClaimRef == nil || volume.DeletionTimestamp != nil:
		problem := misfit(volume, claim)
		if problem == "" && match.VolumeClass(volume) != match.ClaimClass(claim) {
			problem = "storageClassName does not match"
		}
		if problem != "" {
			return pending(claim, Event{Warning: true, Reason: ReasonVolumeMismatch, Note: fmt.Sprintf("Cannot bind to requested volume %q: %s", volume.Name, problem)})
		}
	}
	return bind(claim, volume)
}

// decideUnbound is for a claim that may have any volume.
func decideUnbound(f *ClaimFacts) Decision {
	claim := f.Claim
	reserved, mismatches := reservedFor(f)
	if reserved != nil {
		return bind(claim, reserved)
	}
	d := decideFree(f)
	d.Events = append(mismatches, d.Events...)
	return d
}

// decideFree is for a claim without a volume that refers to it.
func decideFree(f *ClaimFacts) Decision {
	claim, class := f.Claim, match.ClaimClass(f.Claim)
	delayed := claims.LateBinding(f.Class)
	if !delayed {
		switch {
		case !f.Matched:
			return Decision{Do: Match}
		case f.Match != nil && class != "" && f.Class == nil && !f.ClassRead:
			return Decision{Do: ReadClass} // it may be of late binding
		case f.Match != nil:
			return bind(claim, f.Match)
		}
	}
	selected := claims.SelectedNode(claim) != ""
	switch {
	case !claims.HasClass(claim) && f.Default != nil:
		want := claim.DeepCopy()
		want.Spec.StorageClassName = &f.Default.Name
		return Decision{Do: WriteClaim, Claim: want}
	case delayed && !selected:
		return pending(claim, waiting(f.Pods))
	case class != "":
		return provision(f)
	default:
		return pending(claim, Event{Reason: ReasonFailedBinding, Note: "no persistent volumes available for this claim and no storage class is set"})
	}
}

// reservedFor returns the best volume that refers to the claim and fits, nil for none, and events
// about those that do not fit. A volume with the claim's UID is preferred: that binding has begun.
func reservedFor(f *ClaimFacts) (best *v1.PersistentVolume, mismatches []Event) {
	for _, volume := range f.Referring {
		if !match.RefersTo(volume.Spec.ClaimRef, f.Claim) {
			continue
		}
		if problem := misfit(volume, f.Claim); problem != "" {
			mismatches = append(mismatches, Event{Warning: true, Reason: ReasonVolumeMismatch, Note: fmt.Sprintf("Cannot bind to volume %q, which is reserved for this claim: %s", volume.Name, problem)})
		} else if best == nil || preferred(volume, best) {
			best = volume
		}
	}
	slices.SortFunc(mismatches, func(a, b Event) int { return strings.Compare(a.Note, b.Note) })
	return best, mismatches
}

// preferred reports whether volume a is bound to its claim rather than b.
func preferred(a, b *v1.PersistentVolume) bool {
	if begun := a.Spec.ClaimRef.UID != ""; begun != (b.Spec.ClaimRef.UID != "") {
		return begun
	}
	if order := a.Spec.Capacity.Storage().Cmp(*b.Spec.Capacity.Storage()); order != 0 {
		return order < 0
	}
	return a.Name < b.Name
}

// bind returns the next write of a binding: claimRef, phase of the volume, claim, status of the claim.
// The phase comes before the claim, so that a scheduler that wrote the claimRef cannot undo it.
func bind(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) Decision {
	b := plan.Binding{Claim: claim, Volume: volume}
	claimVolume := b.ClaimVolume
	if _, complete := claim.Annotations[plan.AnnBindCompleted]; complete {
		claimVolume = b.RestoreClaimRef
	}
	if want, write, why := claimVolume(volume); why != nil || write {
		return written(Decision{Do: WriteVolume, Volume: want}, why)
	}
	if want, write, why := b.VolumeBound(volume); why != nil || write {
		return written(Decision{Do: WriteVolumeStatus, Volume: want}, why)
	}
	if want, write, why := b.BindClaim(claim); why != nil || write {
		return written(Decision{Do: WriteClaim, Claim: want}, why)
	}
	if want, write, why := b.ClaimBound(claim, volume); why != nil || write {
		return written(Decision{Do: WriteClaimStatus, Claim: want}, why)
	}
	return Decision{Do: None}
}

// written is the decision, or none after a failure: an event on the object that caused it follows.
func written(d Decision, why *plan.Failure) Decision {
	if why != nil {
		return Decision{Do: None}
	}
	return d
}

// lose marks a claim Lost.
func lose(claim *v1.PersistentVolumeClaim, reason, note string) Decision {
	if claim.Status.Phase == v1.ClaimLost {
		return Decision{Do: None}
	}
	return Decision{Do: WriteClaimStatus, Claim: withoutVolume(claim, v1.ClaimLost), Events: []Event{{Warning: true, Reason: reason, Note: note}}}
}

// pending keeps a claim Pending, with events about the reason.
func pending(claim *v1.PersistentVolumeClaim, events ...Event) Decision {
	want := withoutVolume(claim, v1.ClaimPending)
	if equality.Semantic.DeepEqual(want.Status, claim.Status) {
		return Decision{Do: None, Events: events}
	}
	return Decision{Do: WriteClaimStatus, Claim: want, Events: events}
}

// withoutVolume returns a copy of the claim in the phase, without the status that its volume gives it.
func withoutVolume(claim *v1.PersistentVolumeClaim, phase v1.PersistentVolumeClaimPhase) *v1.PersistentVolumeClaim {
	want := claim.DeepCopy()
	want.Status.Phase = phase
	want.Status.AccessModes, want.Status.Capacity, want.Status.CurrentVolumeAttributesClassName = nil, nil, nil
	return want
}

// maxPods is how many pods an event names: users create them, and the length of a note is limited.
const maxPods = 5

// waiting is the event of a claim that the scheduler binds.
func waiting(pods []string) Event {
	switch {
	case len(pods) == 0:
		return Event{Reason: ReasonWaitForFirstConsumer, Note: "waiting for first consumer to be created before binding"}
	case len(pods) == 1:
		return Event{Reason: ReasonWaitForPodScheduled, Note: fmt.Sprintf("waiting for pod %s to be scheduled", pods[0])}
	}
	pods = slices.Sorted(slices.Values(pods))
	more := ""
	if len(pods) > maxPods {
		more = fmt.Sprintf(" and %d more", len(pods)-maxPods)
		pods = pods[:maxPods]
	}
	return Event{Reason: ReasonWaitForPodScheduled, Note: fmt.Sprintf("waiting for pods %s%s to be scheduled", strings.Join(pods, ","), more)}
}
