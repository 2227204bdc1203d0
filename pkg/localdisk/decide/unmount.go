// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// unmounted decides about a volume whose disk was unmounted or detached. After a second scan has
// found no disk, a volume without a claim is deleted; one with a claim is Missing, and is marked
// (markOf) so that no pod is scheduled to it, until the disk is back.
func unmounted(s *Slot) Decision {
	if !s.Absent() {
		return wait(stateOf(s.Volume), missing(s))
	}
	return lost(s, stowage.EntryMissing, missing(s))
}

// missing returns the problem of a volume without a disk.
func missing(s *Slot) *disk.Problem {
	if s.Fact != nil && s.Fact.Problem != nil {
		return &disk.Problem{Reason: disk.Missing, Message: s.Fact.Problem.Message}
	}
	return disk.Problemf(disk.Missing, "nothing is at %s", s.Volume.HostPath)
}

// lost deletes a volume without a claim, and only reports the problem of one with a claim.
func lost(s *Slot, state stowage.EntryState, problem *disk.Problem) Decision {
	if v := s.Volume; v.Claimed || v.Phase == disk.PhaseBound {
		return Decision{Do: None, State: state, Problem: problem}
	}
	return Decision{Do: DeleteVolume, State: state, Problem: problem}
}

// AbsentAfter is how many consecutive scans must find no disk before it counts as absent: a
// remount removes it for a moment.
const AbsentAfter = 2

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

// remounted decides about a volume without a claim whose disk WasAway: it stays if the disk holds
// what it was published with.
func remounted(s *Slot) Decision {
	switch s.Content {
	case disk.ContentUnknown:
		return Decision{Do: Inspect, State: stateOf(s.Volume)}
	case disk.ContentNone:
		return Decision{Do: WriteRecord, State: stateOf(s.Volume)}
	default:
		return lost(s, stateOf(s.Volume), s.FoundAfterAbsence())
	}
}
