// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

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

// Absent reports whether it is certain that no disk is at the path, neither the volume's nor
// another.
func (s *Slot) Absent() bool {
	return s.DirectoryRead && s.MissedScans >= AbsentAfter && s.Vacant()
}

// Vacant reports whether the last scan found no disk at the path.
func (s *Slot) Vacant() bool {
	if s.Fact == nil {
		return true
	}
	if s.Fact.Problem == nil {
		return false
	}
	switch s.Fact.Problem.Reason {
	case disk.Missing, disk.MountMissing, disk.NotMountPoint, disk.SpecialFile,
		disk.OutsideDirectory, disk.DiscoveryDirectory, disk.UnsupportedFilesystem:
		return true
	default:
		return false
	}
}

// missing returns the problem of a volume without a disk.
func missing(s *Slot) *disk.Problem {
	if s.Fact != nil && s.Fact.Problem != nil {
		return &disk.Problem{Reason: disk.Missing, Message: s.Fact.Problem.Message}
	}
	return disk.Problemf(disk.Missing, "nothing is at %s", s.Volume.HostPath)
}

// Unproven returns why the disk at the path may not be the volume's, and what to do about it.
func (s *Slot) Unproven() *disk.Problem {
	v, found := s.Volume, s.Fact.Identity
	switch {
	case v.Identity.Moved(found):
		return MachineChanged(v.Identity, found)
	case !v.Identity.Unnamed() && v.Identity.Weak():
		return disk.Problemf(disk.IdentityUnproven,
			"the machine has restarted, and a stop of it may have discarded the data of the disk at %s without a change of its name; if the data is there, annotate volume %s with stowage.dev/same-disk=%s", v.HostPath, v.Name, found)
	default:
		return disk.Problemf(disk.IdentityUnproven,
			"the disk at %s has no identity that persists over a restart, so it may be another disk; if it is the same, annotate volume %s with stowage.dev/same-disk=%s", v.HostPath, v.Name, found)
	}
}

// MachineChanged returns why no disk of a node with another machine is proven to be the same,
// and how to confirm all of them at once.
func MachineChanged(before, now disk.Identity) *disk.Problem {
	return disk.Problemf(disk.IdentityUnproven,
		"the node's machine was %s and is %s: another mainboard, or another machine under the node's name, whose disks may have the same serial numbers; if its disks are the same as before, annotate the node's LocalDiskReport with stowage.dev/same-machine=%s:%s, once for all of them",
		before.Machine(), now.Machine(), before.Machine(), now.Machine())
}

// OfVanishedVolume returns the problem of a volume whose disk was last in use by another
// volume of this cluster, which is gone; nil if it was not.
func (s *Slot) OfVanishedVolume() *disk.Problem {
	r, v := s.Record, s.Volume
	if r == nil || !r.State.Dirty() || r.Volume == "" || r.Phase != disk.PhaseBound || s.Acknowledged {
		return nil
	}
	if isOf(r, v) {
		return nil
	}
	return disk.Problemf(disk.VolumeVanished,
		"the disk holds the data of volume %s with UID %s, which was Bound and is gone, perhaps because etcd was restored: copy what you need; %s", r.Volume, r.UID, Acknowledge(s.Acknowledgement()))
}

// Recorded reports whether the record of the disk at the path is dirty and describes the
// volume as it is now.
func (s *Slot) Recorded() bool {
	r, v := s.Record, s.Volume
	return r != nil && r.Cluster == s.Cluster && isOf(r, v) && r.Policy == v.Policy &&
		r.State.Dirty() && (r.State != disk.Retained || v.Deleting) && r.Missed.IsZero() && s.Fact != nil && v.Identity == s.Fact.Identity
}

// isOf reports whether a record is of a volume. A volume of the same name with another UID is
// another volume; a record that was written before the volume has no UID.
func isOf(r *disk.Record, v *disk.Volume) bool {
	return r.Volume == v.Name && (r.UID == "" || r.UID == v.UID)
}

// PhaseUnrecorded reports whether the record of the volume's disk has another phase than
// the observed one.
func (s *Slot) PhaseUnrecorded() bool {
	r, v := s.VolumeRecord, s.Volume
	return r != nil && v.Identity != "" && r.Cluster == s.Cluster && isOf(r, v) &&
		r.State == disk.Published && r.Phase != v.Seen()
}

// WasAway reports whether the disk of a volume that never had a claim was detached or
// unmounted, or the node restarted, since the disk was last known to be empty. It may have been
// written to elsewhere.
func (s *Slot) WasAway() bool {
	r, v := s.Record, s.Volume
	return v != nil && !v.Claimed && s.Recorded() && s.Fact.Problem == nil && r.State == disk.Published && r.Unclaimed() &&
		r.Attachment != "" && !r.Accepted && !s.Stayed
}

// FoundAfterAbsence returns why a volume that WasAway is withdrawn when its disk has data.
func (s *Slot) FoundAfterAbsence() *disk.Problem {
	return disk.Problemf(disk.NotEmpty,
		"the disk of volume %s was away or the node restarted, and it holds %s now, which no pod of the volume wrote: the volume is withdrawn and the data kept", s.Volume.Name, s.Found)
}

// Failing reports whether the disk at the path is known to be failing: by its health, by the
// kernel's report, or because FaultScans scans failed, also before a restart of the provisioner, which
// the volume's mark shows.
func (s *Slot) Failing() bool {
	if s.Fact == nil || s.Fact.Problem == nil {
		return false
	}
	if s.Unhealthy {
		return true
	}
	switch s.Fact.Problem.Reason {
	case disk.FilesystemError, disk.DeviceReadOnly:
		return true
	case disk.TimedOut, disk.IOError: // may pass
		return s.Persistent || s.Volume != nil && s.Volume.Mark == disk.MarkFailing
	default:
		return false
	}
}
