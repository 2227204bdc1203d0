// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reclaim decides what becomes of volumes that are given back, and of disks
// that may still hold somebody's data.
//
// A released volume of policy Delete is deleted first: with our finalizer it stays,
// and nothing binds a volume that is being deleted. Then the disk is cleaned, and
// only when the node has written down that it is clean does the volume go. A disk
// whose volume vanished in another way is dirty; orphan.go decides what becomes of it.
package reclaim

import (
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// Concerns says whether a slot is for Decide, and not for discovery.Decide.
func Concerns(s *slot.Slot) bool {
	if v := s.Volume; v != nil {
		return v.Deleting || v.Phase == disk.PhaseReleased || v.Phase == disk.PhaseOfFailed
	}
	return s.Fact != nil && s.Record != nil && (s.Record.State.Dirty() || s.Record.Cluster != s.Cluster)
}

// Decide says what to do about a slot that Concerns.
func Decide(s *slot.Slot) slot.Decision {
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

// withPhase has the volume's phase recorded before the decision is to wait, or to release
// a volume whose disk is away: the volume may be gone when the disk is next decided about.
func withPhase(s *slot.Slot, d slot.Decision) slot.Decision {
	if (d.Do == slot.None || d.Do == slot.RemoveFinalizer) && s.PhaseUnrecorded() {
		d.Do = slot.WriteRecord
	}
	return d
}

// released decides about a volume whose claim is gone.
func released(s *slot.Slot) slot.Decision {
	v := s.Volume
	if r := s.VolumeRecord; r != nil && r.Cluster == s.Cluster && r.Volume == v.Name && r.Policy != v.Policy && v.Identity != "" {
		return slot.Decision{Do: slot.WriteRecord, State: slot.Released}
	}
	switch v.Policy {
	case disk.Retain:
		return slot.Decision{Do: slot.None, State: slot.Released}
	case disk.RecyclePolicy:
		return wait(slot.Released, recycle(v))
	}
	if !v.Finalized {
		return slot.Decision{Do: slot.AddFinalizer, State: slot.Released}
	}
	if decision, ok := ready(s, slot.Released); !ok {
		return decision
	}
	return slot.Decision{Do: slot.Remove, State: slot.Cleaning}
}

// failed decides about a volume that the PersistentVolume controller gave up.
func failed(v *disk.Volume) slot.Decision {
	if v.Policy == disk.RecyclePolicy {
		return wait(slot.Failed, recycle(v))
	}
	return wait(slot.Failed, disk.Problemf(disk.PhaseFailed, "volume %s is Failed and is left alone: delete it, and the disk is cleaned if the volume's policy is Delete", v.Name))
}

func recycle(v *disk.Volume) *disk.Problem {
	return disk.Problemf(disk.Recycle, "local volumes cannot be recycled: set the reclaim policy of volume %s to Delete or Retain", v.Name)
}

// deleted decides about a volume that is being deleted, by us or by somebody else.
func deleted(s *slot.Slot) slot.Decision {
	v := s.Volume
	release := slot.Decision{Do: slot.RemoveFinalizer, State: slot.Cleaning}
	switch {
	case !v.Finalized:
		return slot.Decision{Do: slot.None, State: slot.Released} // until the watch shows it gone
	case v.Phase == disk.PhaseBound:
		return wait(slot.Bound, disk.Problemf(disk.VolumeInUse, "volume %s is being deleted and still has a claim", v.Name))
	case cleaned(s), s.VolumeRecord != nil && s.VolumeRecord.State == disk.Retained:
		return release
	case v.Policy != disk.Delete:
		return retain(s)
	case v.Binding():
		return binding(s)
	case !s.Looked && !s.Configured:
		return wait(slot.Released, notConfigured(s))
	case !s.Looked:
		return slot.Decision{Do: slot.None, State: slot.Released}
	case s.Absent():
		return abandon(s, slot.Missing)
	case !s.Vacant() && s.Fact.Identity != "" && s.Match() == disk.Different:
		return abandon(s, slot.Replaced)
	case !s.Vacant() && !v.Claimed && v.Identity != "" && s.Match() == disk.Unproven:
		return abandon(s, slot.Unproven) // nobody's data is on either disk, and what is here is looked at before it is published
	}
	if s.WasAway() { // what is on the disk is not the volume's
		switch s.Content {
		case disk.ContentUnknown:
			return slot.Decision{Do: slot.Inspect, State: slot.Cleaning}
		case disk.ContentNone:
		default:
			return slot.Decision{Do: slot.MarkRetained, State: slot.Retained, Problem: s.FoundAfterAbsence()}
		}
	}
	if decision, ok := ready(s, slot.Cleaning); !ok {
		return decision
	}
	return slot.Decision{Do: slot.Wipe, State: slot.Cleaning, Generation: v.Generation}
}

// cleaned says whether the disk was cleaned for this very volume.
func cleaned(s *slot.Slot) bool {
	r, v := s.VolumeRecord, s.Volume
	return r != nil && r.Cluster == s.Cluster && r.Volume == v.Name && (r.UID == "" || r.UID == v.UID) && !r.State.Dirty()
}

// binding lets a volume go to which a claim may yet become bound, so that a clean now
// might take away what a pod has just written, and would say nothing about later. The
// disk's record stays dirty: it is cleaned once the volume is gone.
func binding(s *slot.Slot) slot.Decision {
	r, v := s.VolumeRecord, s.Volume
	if v.Identity != "" && !s.OtherClusters(r) && (r == nil || r.Volume != v.Name || !r.State.Dirty()) {
		return slot.Decision{Do: slot.WriteRecord, State: slot.Released}
	}
	return slot.Decision{Do: slot.RemoveFinalizer, State: slot.Released}
}

// retain keeps the data of a volume whose policy was not Delete.
func retain(s *slot.Slot) slot.Decision {
	if s.VolumeRecord == nil && s.Volume.Identity == "" {
		if !s.Looked || s.Vacant() && !s.Absent() {
			return slot.Decision{Do: slot.None, State: slot.Retained}
		}
		if !s.Absent() && s.Fact.Problem == nil {
			return slot.Decision{Do: slot.MarkRetained, State: slot.Retained} // adopted: the disk that is here
		}
		return slot.Decision{Do: slot.RemoveFinalizer, State: slot.Retained}
	}
	return slot.Decision{Do: slot.MarkRetained, State: slot.Retained}
}

// abandon lets a volume go whose disk is not here. If it was released, the disk is cleaned when
// it comes back; else what the disk holds then is looked at. No disk comes back with the
// identity that it had on another machine.
func abandon(s *slot.Slot, state slot.State) slot.Decision {
	r, v := s.VolumeRecord, s.Volume
	switch {
	case r == nil && v.Identity != "" && !s.OtherMachine():
		return slot.Decision{Do: slot.WriteRecord, State: state}
	case r != nil && r.Cluster == s.Cluster && r.Volume == v.Name && r.UID == v.UID && r.State == disk.Published && v.Seen() == disk.PhaseReleased:
		return slot.Decision{Do: slot.CleanLater, State: state}
	}
	return slot.Decision{Do: slot.RemoveFinalizer, State: state}
}

// ready says whether the disk is there, is the volume's, and nobody uses it.
func ready(s *slot.Slot, state slot.State) (slot.Decision, bool) {
	v := s.Volume
	switch {
	case !s.Looked && !s.Configured:
		return wait(state, notConfigured(s)), false
	case !s.Looked:
		return slot.Decision{Do: slot.None, State: state}, false
	case s.Vacant():
		problem := disk.Problemf(disk.Missing, "nothing is at %s", v.HostPath)
		if s.Fact != nil && s.Fact.Problem != nil {
			problem.Message = s.Fact.Problem.Message
		}
		return wait(slot.Missing, problem), false
	case s.Fact.Problem != nil && s.Fact.Problem.Reason == disk.InUse:
		return wait(state, disk.Problemf(disk.VolumeInUse, "%s", s.Fact.Problem.Message)), false
	case s.Failing():
		return wait(slot.Failing, s.Fact.Problem), false
	case s.Fact.Problem != nil:
		return wait(state, s.Fact.Problem), false
	case !s.Configured:
		return wait(state, notConfigured(s)), false
	}
	switch s.Match() {
	case disk.Different:
		return wait(slot.Replaced, disk.Problemf(disk.Replaced, "another disk is at %s: put back the one of volume %s, or delete the volume", v.HostPath, v.Name)), false
	case disk.Unproven:
		if v.Identity == "" && !foreignRecord(s) && s.OfOtherCluster() == nil {
			return slot.Decision{Do: slot.WriteRecord, State: state}, false // adopted, and never seen before
		}
		return wait(slot.Unproven, s.Unproven()), false
	}
	if s.Damaged {
		return wait(state, disk.Problemf(disk.BadRecord, "the node's record of this disk is damaged: remove its file, and it is made again from the volume")), false
	}
	if problem := s.OfOtherCluster(); problem != nil {
		return wait(state, problem), false
	}
	if problem := s.OfVanishedVolume(); problem != nil {
		return wait(state, problem), false
	}
	if !s.Recorded() {
		return slot.Decision{Do: slot.WriteRecord, State: state}, false
	}
	return idle(s, state)
}

func notConfigured(s *slot.Slot) *disk.Problem {
	return disk.Problemf(disk.NotConfigured, "how to clean is not known: the configuration has no class %q any more", s.Key.Class)
}

// foreignRecord says whether the disk at the path is known as another volume's.
func foreignRecord(s *slot.Slot) bool {
	return s.Record != nil && s.Record.Volume != "" && s.Record.Volume != s.Volume.Name
}

// idle says whether nobody uses the disk.
func idle(s *slot.Slot, state slot.State) (slot.Decision, bool) {
	if problem := s.BeingCleaned(); problem != nil {
		return wait(state, problem), false
	}
	if !s.UsersKnown {
		return slot.Decision{Do: slot.FindUsers, State: state}, false
	}
	if len(s.Users) > 0 {
		return wait(state, disk.Problemf(disk.VolumeInUse, "used by %s", s.Users[0])), false
	}
	return slot.Decision{}, true
}

func wait(state slot.State, problem *disk.Problem) slot.Decision {
	return slot.Decision{Do: slot.None, State: state, Problem: problem}
}
