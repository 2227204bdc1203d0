// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// returned decides about a free volume whose disk was away.
func returned(s *Slot) Decision {
	switch s.Content {
	case disk.ContentUnknown:
		return Decision{Do: Inspect, State: stateOf(s.Volume)}
	case disk.ContentNone:
		return Decision{Do: WriteRecord, State: stateOf(s.Volume)}
	default:
		return lost(s, stateOf(s.Volume), s.FoundAfterAbsence())
	}
}

// vacant decides about a volume without a disk.
func vacant(s *Slot) Decision {
	problem := disk.Problemf(disk.Missing, "nothing is at %s", s.Volume.HostPath)
	if s.Fact != nil && s.Fact.Problem != nil {
		problem.Message = s.Fact.Problem.Message
	}
	if !s.Absent() {
		return Decision{Do: None, State: stateOf(s.Volume), Problem: problem}
	}
	return lost(s, stowage.EntryMissing, problem)
}

// troubled decides about a volume whose disk is at its path and should not be used.
func troubled(s *Slot) Decision {
	problem := s.Fact.Problem
	if s.Failing() {
		return lost(s, stowage.EntryFailing, problem)
	}
	switch problem.Reason {
	case disk.TimedOut, disk.IOError, disk.Unreadable:
		return Decision{Do: None, State: stateOf(s.Volume), Problem: problem}
	default:
		return lost(s, stateOf(s.Volume), problem)
	}
}

// unproven decides about a volume whose disk is not proven to be at its path. A volume that
// was never claimed is deleted, and its disk published again if it is empty; a claimed one
// waits.
func unproven(s *Slot) Decision {
	v := s.Volume
	if v.Identity == "" {
		if s.Record != nil && s.Record.Volume != v.Name {
			return Decision{Do: None, State: stowage.EntryUnproven, Problem: disk.Problemf(disk.SameBytes, "the disk was published as volume %s", s.Record.Volume)}
		}
		if problem := s.OfOtherCluster(); problem != nil {
			return Decision{Do: None, State: stateOf(v), Problem: problem}
		}
		return Decision{Do: WriteRecord, State: stateOf(v)} // adopted, and first observed now
	}
	return lost(s, stowage.EntryUnproven, s.Unproven())
}

// lost deletes a volume without a claim, and only reports the problem of one with a claim.
func lost(s *Slot, state stowage.EntryState, problem *disk.Problem) Decision {
	if v := s.Volume; v.Claimed || v.Phase == disk.PhaseBound {
		return Decision{Do: None, State: state, Problem: problem}
	}
	return Decision{Do: DeleteVolume, State: state, Problem: problem}
}

// markOf returns the mark that the volume should have. It keeps its mark while the disk cannot
// be examined, and MarkReplaced while the disk may be the volume's. A disk without a
// persistent name is most often the same one after a restart, so it is not marked; one whose
// name shows that the machine is another one, or may have been stopped, is.
func markOf(s *Slot, state stowage.EntryState) disk.Mark {
	switch {
	case state == stowage.EntryMissing:
		return disk.MarkMissing
	case state == stowage.EntryReplaced:
		return disk.MarkReplaced
	case state == stowage.EntryFailing && (s.Volume.Mark != disk.MarkReplaced || s.Match() == disk.Same):
		return disk.MarkFailing
	case s.Vacant(), s.Fact.Identity == "":
		return s.Volume.Mark
	case s.Match() == disk.Unproven && s.Volume.Mark == disk.MarkReplaced:
		return disk.MarkReplaced
	case state == stowage.EntryUnproven && s.Volume.Identity != "" && !s.Volume.Identity.Unnamed():
		return disk.MarkUnproven
	default:
		return disk.Unmarked
	}
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
