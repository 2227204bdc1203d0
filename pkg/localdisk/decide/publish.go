// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"strconv"
	"strings"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Publish decides about a slot that is not for Reclaim (ForReclaim): whether its disk becomes
// a volume, and whether its volume, which is free or has a claim, still has the disk that it
// was published with. first is the generation of a disk's first volume; it must be higher than
// that of any volume whose record was lost, as milliseconds since 1970 are.
func Publish(s *Slot, first int64) Decision {
	if s.Volume != nil {
		return published(s)
	}
	d := candidate(s, first)
	if d.Do == Create && s.Fact.Kind == disk.Device {
		// Mountinfo and sysfs do not show every use of a device.
		d = ifUnused(s, d)
	}
	if d.Do == Create && s.Fact.Kind == disk.Device && s.MountedHere {
		return withFilesystem(s, d)
	}
	return d
}

// withFilesystem returns d once the device has the file system that the provisioner has made. It
// is made on a blank device only, and again where it was not finished.
func withFilesystem(s *Slot, d Decision) Decision {
	read, made := s.Superblock, s.Made()
	switch {
	case read == nil:
		return Decision{Do: ReadSuperblock, State: d.State}
	case read.Problem != nil:
		return skip(read.Problem)
	case made != nil && read.Format == *made && made.Type == s.FSType:
		return d
	case s.accepted():
		return accepted(s, d)
	case read.Blank(), s.Record.Interrupted(*read) && s.Record.Formatting.Type == s.FSType:
		return Decision{Do: MakeFilesystem, State: d.State, Generation: d.Generation}
	case made != nil && read.Format == *made, s.Record.Interrupted(*read): // fsType was changed
		return cleanUnused(s, d.Generation)
	default:
		return skip(disk.Problemf(disk.NotEmpty, "holds %s, so no file system is made on it: remove that with wipefs --all", read.Holds()))
	}
}

// accepted decides about a device that is published with its data: only with the file system of
// its former volume.
func accepted(s *Slot, d Decision) Decision {
	if r := s.Record; r != nil && r.Filesystem != nil && s.Superblock.Format.Type == s.FSType && *r.Filesystem == s.Superblock.Format {
		return d
	}
	return skip(disk.Problemf(disk.NotEmpty,
		"its data was acknowledged, and it holds %s: with mount Agent, a disk is published with its data only if it has the file system of its former volume; empty it, or set mount of the class to Kubelet", s.Superblock.Holds()))
}

// accepted reports whether the disk is to be published with its data.
func (s *Slot) accepted() bool { return s.Acknowledged || s.Record != nil && s.Record.Accepted }

// candidate decides about a disk without a volume.
func candidate(s *Slot, first int64) Decision {
	switch {
	case !s.DirectoryRead || s.Fact == nil:
		return Decision{Do: None, State: stowage.EntrySkipped}
	case s.Fact.Problem != nil:
		return skip(s.Fact.Problem)
	case !s.Configured:
		return skip(unconfigured(s))
	case s.Damaged:
		return skip(disk.Problemf(disk.BadRecord, "the node's record of this disk is damaged, so it may hold data: inspect the disk, then remove the record's file"))
	case s.DuplicatePV != "":
		return skip(disk.Problemf(disk.SameBytes, "volume %s already offers this disk", s.DuplicatePV))
	case s.UnmanagedPV != "":
		return skip(disk.Problemf(disk.ForeignVolume, "volume %s has this path and node, and Stowage does not manage it: delete it, or adopt it with `kubectl stowage adopt`", s.UnmanagedPV))
	case s.Record == nil && s.Former != nil:
		return skip(MachineChanged(s.Former.Identity, s.Fact.Identity))
	case s.Record != nil && !s.Stayed && !s.NodesAsked:
		return Decision{Do: AskNodes, State: stowage.EntryPending}
	case s.ForeignPV != "":
		return skip(s.OfOtherNode())
	case s.Record != nil && !s.Stayed: // it may have been written to since it was cleaned
		return unknown(s, s.Record.Generation)
	case s.Record != nil && s.Record.Kind == disk.Device && s.Record.Mode == disk.Filesystem && s.Mode == disk.Block:
		return cleanUnused(s, s.Record.Generation) // cleaned for a file system, which leaves old bytes
	case s.Record != nil && !s.MountedHere && (s.Made() != nil || s.Record.Formatting != nil):
		return cleanUnused(s, s.Record.Generation) // it has the file system of another configuration
	case s.Record != nil:
		return Decision{Do: Create, State: stowage.EntryPending, Generation: s.Record.Generation}
	}
	return unknown(s, first)
}

// unknown decides about a disk without a record, or one that was away since it was cleaned.
// The disk must be empty. Of a device this is known only after all of it was read: signatures,
// ends and samples can prove that there is data, but not that there is none.
func unknown(s *Slot, first int64) Decision {
	p := s.Predecessor()
	if p != nil {
		first = max(first, s.Predecessors[0].Generation+1)
		if problem := s.OfOtherCluster(); problem != nil {
			return skip(problem)
		}
	}
	create := Decision{Do: Create, State: stowage.EntryPending, Generation: first}
	switch {
	case !s.NodesAsked:
		return Decision{Do: AskNodes, State: stowage.EntryPending}
	case s.Content == disk.ContentNone, p == nil && s.Existing == ExistingPublish, s.Acknowledged:
		return create
	case s.Content == disk.ContentUnknown:
		return Decision{Do: Inspect, State: stowage.EntryPending}
	case s.Content == disk.ContentSampled && s.Existing == ExistingAssumeBlank && p == nil && !s.Unaccounted:
		return create
	case s.Existing == ExistingClean && (p == nil || !kept(p)):
		return cleanUnused(s, first)
	case s.Content == disk.ContentSampled:
		return Decision{Do: ProveBlank, State: stowage.EntryPending, Problem: s.ProvingBlank()}
	case p != nil:
		return skip(disk.Problemf(disk.IdentityUnproven, "holds %s, and may be the disk of %s at this path: zero it, or copy what you need, %s", s.Found, volumesOf(s.Predecessors), Acknowledge(s.Acknowledgement())))
	default:
		return skip(notEmpty(s))
	}
}

// notEmpty returns why a disk with data of unknown origin is not published.
func notEmpty(s *Slot) *disk.Problem {
	history := "was never published by this node"
	if s.Record != nil {
		history = "was away, or the node restarted, since this node cleaned it"
	}
	return disk.Problemf(disk.NotEmpty,
		"holds %s, and %s: empty it (a device must be zero from end to end), or set existingData of the class; to publish this disk with its data, acknowledge it by its acknowledgement in the node's LocalDiskReport", s.Found, history)
}

// volumesOf returns the names of the records' volumes, for a message.
func volumesOf(records []disk.Record) string {
	var names []string
	for i := range records {
		names = append(names, strconv.Quote(records[i].Volume))
	}
	if len(names) == 1 {
		return "volume " + names[0] + " that was"
	}
	return "one of the volumes " + strings.Join(names, ", ") + " that were"
}

// cleanUnused cleans a disk without a volume, if nothing uses it.
func cleanUnused(s *Slot, first int64) Decision {
	return ifUnused(s, Decision{Do: Clean, State: stowage.EntryCleaning, Generation: first})
}

// ifUnused returns d if nothing uses the disk.
func ifUnused(s *Slot, d Decision) Decision {
	switch {
	case !s.UsersKnown:
		return Decision{Do: FindUsers, State: stowage.EntryPending}
	case len(s.Users) > 0:
		return skip(disk.Problemf(disk.InUse, "used by %s", s.Users[0]))
	default:
		return d
	}
}

// published decides about a volume that is free or has a claim.
func published(s *Slot) Decision {
	v := s.Volume
	if !v.Finalized {
		return Decision{Do: AddFinalizer, State: stateOf(v)}
	}
	if !s.DirectoryRead {
		return Decision{Do: None, State: stateOf(v), Problem: unconfigured(s)}
	}
	d := found(s)
	if mark := markOf(s, d.State); d.Do == None && mark != v.Mark {
		d.Do, d.Mark = MarkDisk, mark
	}
	if d.Do == None && s.PhaseUnrecorded() {
		d.Do = WriteRecord
	}
	return d
}

// found decides about a volume by what is at its path.
func found(s *Slot) Decision {
	v := s.Volume
	if s.Vacant() {
		return unmounted(s)
	}
	match := s.Match()
	switch {
	case match == disk.Different:
		return lost(s, stowage.EntryReplaced, disk.Problemf(disk.Replaced, "another disk is at %s: put back the one that volume %s was published with, or delete the volume", v.HostPath, v.Name))
	case s.Fact.Problem != nil:
		return troubled(s)
	case match == disk.Unproven:
		return unproven(s)
	}
	return present(s)
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
// persistent name is most often the same one after a restart, so it is not marked. A disk whose
// name shows that the machine is another one, or may have been stopped, gets MarkUnproven.
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

// present decides about a volume whose disk is at its path.
func present(s *Slot) Decision {
	v := s.Volume
	if problem := s.OfOtherCluster(); problem != nil {
		return Decision{Do: None, State: stateOf(v), Problem: problem}
	}
	if s.Record != nil && s.Record.State == disk.Cleaning {
		return lost(s, stateOf(v), disk.Problemf(disk.Interrupted, "the disk is half cleaned, and volume %s was made by hand", v.Name))
	}
	if problem := s.OfVanishedVolume(); problem != nil {
		return Decision{Do: None, State: stateOf(v), Problem: problem}
	}
	if !s.Recorded() {
		if s.Damaged {
			return Decision{Do: None, State: stateOf(v), Problem: disk.Problemf(disk.BadRecord, "the node's record of this disk is damaged: remove its file, and it is recreated from the volume")}
		}
		return Decision{Do: WriteRecord, State: stateOf(v)}
	}
	if s.WasAway() {
		return remounted(s)
	}
	if size := v.DiskBytes; size != 0 && size != s.Fact.Bytes && !s.Fact.SharesSpace() {
		return lost(s, stateOf(v), disk.Problemf(disk.Grown, "the disk has %d bytes now and had %d when volume %s was published", s.Fact.Bytes, size, v.Name))
	}
	if s.ByRule && !s.Configured && !s.Record.Accepted { // else it would be cleaned with the data
		return lost(s, stateOf(v), unconfigured(s)) // another class may have the disk
	}
	if s.Configured && v.Link != "" && v.Mode == disk.Filesystem && v.Mounted() != s.MountedHere {
		return remadeOtherwise(s)
	}
	return Decision{Do: None, State: stateOf(v), Problem: unconfigured(s)}
}

// remadeOtherwise decides about a volume whose path is that of another value of the class's key
// mount: one without a claim is withdrawn and cleaned.
func remadeOtherwise(s *Slot) Decision {
	if v := s.Volume; v.Claimed || v.Phase == disk.PhaseBound {
		return Decision{Do: None, State: stateOf(v)}
	}
	return Decision{Do: DeleteVolume, State: stateOf(s.Volume), Problem: disk.Problemf(disk.NotConfigured,
		"key mount of class %s was changed: the volume is published again", s.Key.Class)}
}

// troubled decides about a volume whose disk is at its path and has a problem.
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

func stateOf(v *disk.Volume) stowage.EntryState {
	switch v.Phase {
	case disk.PhaseAvailable:
		return stowage.EntryAvailable
	case disk.PhaseBound:
		return stowage.EntryBound
	default:
		return stowage.EntryPending
	}
}

func skip(problem *disk.Problem) Decision {
	return Decision{Do: None, State: stowage.EntrySkipped, Problem: problem}
}

// unconfigured returns a problem if the configuration no longer has the slot.
func unconfigured(s *Slot) *disk.Problem {
	switch {
	case s.Configured:
		return nil
	case s.ByRule:
		return disk.Problemf(disk.NotConfigured, "the rules of class %s no longer select this disk; class %s cleans it when its volume is released, and gives it up", s.Key.Class, s.Key.Class)
	default:
		return disk.Problemf(disk.NotConfigured, "the configuration no longer has %s", s.Key)
	}
}

// unmounted decides about a volume whose disk was unmounted or detached. After a second scan has
// found no disk, a volume without a claim is deleted; one with a claim is Missing, and is marked
// (markOf) so that no pod is scheduled to it, until the disk is back.
func unmounted(s *Slot) Decision {
	if !s.Absent() {
		return wait(stateOf(s.Volume), missing(s))
	}
	return lost(s, stowage.EntryMissing, missing(s))
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
