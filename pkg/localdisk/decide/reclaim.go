// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// ForReclaim reports whether a slot is for Reclaim, and not for Publish: its volume is
// released, failed or being deleted, or it has none and its disk is dirty.
func ForReclaim(s *Slot) bool {
	if v := s.Volume; v != nil {
		return v.Deleting || v.Phase == disk.PhaseReleased || v.Phase == disk.PhaseOfFailed
	}
	return s.Fact != nil && s.Record != nil && (s.Record.State.Dirty() || s.Record.Cluster != s.Cluster)
}

// Reclaim decides about a slot that is ForReclaim. A released volume with policy Delete is
// deleted first: the finalizer keeps it, and nothing binds a volume that is being deleted.
// Then the disk is cleaned, and the finalizer is removed only after the node's record says
// that the disk is clean. A disk whose volume was removed in another way is dirty: see orphan.
func Reclaim(s *Slot) Decision {
	switch v := s.Volume; {
	case v == nil:
		return orphan(s)
	case v.Deleting:
		return withPhase(s, deleted(s))
	case v.Phase == disk.PhaseOfFailed:
		return withPhase(s, failed(v))
	default:
		return withPhase(s, released(s))
	}
}

// withPhase records the volume's phase before a decision to wait or to remove the finalizer:
// the volume may be gone at the next decision about the disk.
func withPhase(s *Slot, d Decision) Decision {
	if (d.Do == None || d.Do == RemoveFinalizer) && s.PhaseUnrecorded() {
		d.Do = WriteRecord
	}
	return d
}

// released decides about a volume whose claim is gone.
func released(s *Slot) Decision {
	v := s.Volume
	if r := s.VolumeRecord; r != nil && r.Cluster == s.Cluster && r.Volume == v.Name && r.Policy != v.Policy && v.Identity != "" {
		return Decision{Do: WriteRecord, State: stowage.EntryReleased}
	}
	switch v.Policy {
	case disk.Retain:
		return Decision{Do: None, State: stowage.EntryReleased}
	case disk.RecyclePolicy:
		return wait(stowage.EntryReleased, recycle(v))
	}
	if !v.Finalized {
		return Decision{Do: AddFinalizer, State: stowage.EntryReleased}
	}
	if decision, ok := ready(s, stowage.EntryReleased); !ok {
		return decision
	}
	return Decision{Do: DeleteVolume, State: stowage.EntryCleaning}
}

// failed decides about a volume in phase Failed.
func failed(v *disk.Volume) Decision {
	if v.Policy == disk.RecyclePolicy {
		return wait(stowage.EntryFailed, recycle(v))
	}
	return wait(stowage.EntryFailed, disk.Problemf(disk.PhaseFailed, "volume %s is Failed, so its disk is neither cleaned nor published: delete it, and the disk is cleaned if the volume's policy is Delete", v.Name))
}

func recycle(v *disk.Volume) *disk.Problem {
	return disk.Problemf(disk.Recycle, "local volumes cannot be recycled: set the reclaim policy of volume %s to Delete or Retain", v.Name)
}

// deleted decides about a volume that is being deleted, by the provisioner or a user.
func deleted(s *Slot) Decision {
	v := s.Volume
	release := Decision{Do: RemoveFinalizer, State: stowage.EntryCleaning}
	switch {
	case !v.Finalized:
		return Decision{Do: None, State: stowage.EntryReleased} // until the watch reports its deletion
	case v.Phase == disk.PhaseBound:
		return wait(stowage.EntryBound, disk.Problemf(disk.VolumeInUse, "volume %s is being deleted and still has a claim", v.Name))
	case cleaned(s), s.VolumeRecord != nil && s.VolumeRecord.State == disk.Retained:
		return release
	case v.Policy != disk.Delete:
		return retain(s)
	case v.Binding():
		return binding(s)
	case !s.DirectoryRead && !s.Configured:
		return wait(stowage.EntryReleased, classRemoved(s))
	case !s.DirectoryRead:
		return Decision{Do: None, State: stowage.EntryReleased}
	case s.Absent():
		return abandon(s, stowage.EntryMissing)
	case !s.Vacant() && s.Fact.Identity != "" && s.Match() == disk.Different:
		return abandon(s, stowage.EntryReplaced)
	case !s.Vacant() && !v.Claimed && v.Identity != "" && s.Match() == disk.Unproven:
		return abandon(s, stowage.EntryUnproven) // neither disk has the data of a claim, and the present one is inspected before it is published
	}
	if s.WasAway() { // data on the disk is not the volume's
		switch s.Content {
		case disk.ContentUnknown:
			return Decision{Do: Inspect, State: stowage.EntryCleaning}
		case disk.ContentNone:
		default:
			return Decision{Do: MarkRetained, State: stowage.EntryRetained, Problem: s.FoundAfterAbsence()}
		}
	}
	if decision, ok := ready(s, stowage.EntryCleaning); !ok {
		return decision
	}
	return Decision{Do: Clean, State: stowage.EntryCleaning, Generation: v.Generation}
}

// cleaned reports whether the disk was cleaned for this volume (by UID).
func cleaned(s *Slot) bool {
	r, v := s.VolumeRecord, s.Volume
	return r != nil && r.Cluster == s.Cluster && isOf(r, v) && !r.State.Dirty()
}

// binding removes the finalizer of a volume that a claim may still become bound to: cleaning
// now might remove what a pod has just written, and more may be written later. The disk's
// record stays dirty, and the disk is cleaned after the volume is gone.
func binding(s *Slot) Decision {
	r, v := s.VolumeRecord, s.Volume
	if v.Identity != "" && !s.OtherClusters(r) && (r == nil || r.Volume != v.Name || !r.State.Dirty()) {
		return Decision{Do: WriteRecord, State: stowage.EntryReleased}
	}
	return Decision{Do: RemoveFinalizer, State: stowage.EntryReleased}
}

// retain keeps the data of a volume whose policy is not Delete.
func retain(s *Slot) Decision {
	if s.VolumeRecord == nil && s.Volume.Identity == "" {
		if !s.DirectoryRead || s.Vacant() && !s.Absent() {
			return Decision{Do: None, State: stowage.EntryRetained}
		}
		if !s.Absent() && s.Fact.Problem == nil {
			return Decision{Do: MarkRetained, State: stowage.EntryRetained} // adopted: the disk at the path
		}
		return Decision{Do: RemoveFinalizer, State: stowage.EntryRetained}
	}
	return Decision{Do: MarkRetained, State: stowage.EntryRetained}
}

// abandon removes the finalizer of a volume whose disk is absent. When the disk returns, it is
// cleaned if the volume was released, and inspected otherwise. No disk returns with the identity
// that it had on another machine.
func abandon(s *Slot, state stowage.EntryState) Decision {
	r, v := s.VolumeRecord, s.Volume
	switch {
	case r == nil && v.Identity != "" && !s.OtherMachine():
		return Decision{Do: WriteRecord, State: state}
	case r != nil && r.Cluster == s.Cluster && r.Volume == v.Name && r.UID == v.UID && r.State == disk.Published && v.Seen() == disk.PhaseReleased:
		return Decision{Do: CleanLater, State: state}
	}
	return Decision{Do: RemoveFinalizer, State: state}
}

// ready reports whether the volume's disk is at its path and unused. If not, the decision says
// what to do.
func ready(s *Slot, state stowage.EntryState) (Decision, bool) {
	v := s.Volume
	switch {
	case !s.DirectoryRead && !s.Configured:
		return wait(state, classRemoved(s)), false
	case !s.DirectoryRead:
		return Decision{Do: None, State: state}, false
	case s.Vacant():
		return wait(stowage.EntryMissing, missing(s)), false
	case s.Fact.Problem != nil && s.Fact.Problem.Reason == disk.InUse:
		return wait(state, disk.Problemf(disk.VolumeInUse, "%s", s.Fact.Problem.Message)), false
	case s.Failing():
		return wait(stowage.EntryFailing, s.Fact.Problem), false
	case s.Fact.Problem != nil:
		return wait(state, s.Fact.Problem), false
	case !s.Configured:
		return wait(state, classRemoved(s)), false
	}
	switch s.Match() {
	case disk.Different:
		return wait(stowage.EntryReplaced, disk.Problemf(disk.Replaced, "another disk is at %s: put back the one of volume %s, or delete the volume", v.HostPath, v.Name)), false
	case disk.Unproven:
		if v.Identity == "" && !foreignRecord(s) && s.OfOtherCluster() == nil {
			return Decision{Do: WriteRecord, State: state}, false // adopted, and first observed now
		}
		return wait(stowage.EntryUnproven, s.Unproven()), false
	}
	if s.Damaged {
		return wait(state, disk.Problemf(disk.BadRecord, "the node's record of this disk is damaged: remove its file, and it is recreated from the volume")), false
	}
	if problem := s.OfOtherCluster(); problem != nil {
		return wait(state, problem), false
	}
	if problem := s.OfVanishedVolume(); problem != nil {
		return wait(state, problem), false
	}
	if !s.Recorded() {
		return Decision{Do: WriteRecord, State: state}, false
	}
	return idle(s, state)
}

func classRemoved(s *Slot) *disk.Problem {
	return disk.Problemf(disk.NotConfigured, "the cleaning method is not known: the configuration no longer has class %q", s.Key.Class)
}

// foreignRecord reports whether the disk at the path was recorded for another volume.
func foreignRecord(s *Slot) bool {
	return s.Record != nil && s.Record.Volume != "" && s.Record.Volume != s.Volume.Name
}

// idle reports whether the disk is unused. If not, the decision says what to do.
func idle(s *Slot, state stowage.EntryState) (Decision, bool) {
	if problem := s.BeingCleaned(); problem != nil {
		return wait(state, problem), false
	}
	if !s.UsersKnown {
		return Decision{Do: FindUsers, State: state}, false
	}
	if len(s.Users) > 0 {
		return wait(state, disk.Problemf(disk.VolumeInUse, "used by %s", s.Users[0])), false
	}
	return Decision{}, true
}

func wait(state stowage.EntryState, problem *disk.Problem) Decision {
	return Decision{Do: None, State: state, Problem: problem}
}
