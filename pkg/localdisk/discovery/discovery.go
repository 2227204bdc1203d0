// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package discovery decides what to publish: whether a disk that was found becomes
// a volume, and whether a volume that is free, or has a claim, still stands for the
// disk that it was published with. What becomes of volumes that are given back is
// decided by package reclaim.
package discovery

import (
	"strconv"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// Decide says what to do about a slot whose volume, if there is one, is neither
// released nor being deleted, and whose disk, if there is no volume, is not dirty
// (reclaim.Concerns). first is the generation of a disk's first volume; it must be
// higher than that of any volume whose record was lost, as milliseconds since 1970 are.
func Decide(s *slot.Slot, first int64) slot.Decision {
	if s.Volume != nil {
		return published(s)
	}
	d := candidate(s, first)
	if d.Do == slot.Create && s.Fact.Kind == disk.Device {
		// Mountinfo and sysfs do not show every use of a device.
		return ifUnused(s, d)
	}
	return d
}

// candidate decides about a disk without a volume.
func candidate(s *slot.Slot, first int64) slot.Decision {
	switch {
	case !s.Looked || s.Fact == nil:
		return slot.Decision{Do: slot.None, State: slot.Skipped}
	case s.Fact.Problem != nil:
		return skip(s.Fact.Problem)
	case !s.Configured:
		return skip(notConfigured(s.Key))
	case s.Damaged:
		return skip(disk.Problemf(disk.BadRecord, "the node's record of this disk is damaged, so it may hold data: look at it, then remove the record's file"))
	case s.Elsewhere != "":
		return skip(disk.Problemf(disk.SameBytes, "volume %s already offers this disk", s.Elsewhere))
	case s.Foreign != "":
		return skip(disk.Problemf(disk.ForeignVolume, "volume %s has this path and node and is not ours: delete it, or take it over with `stowage-provisioner adopt`", s.Foreign))
	case s.Record == nil && s.Former != nil:
		return skip(slot.MachineChanged(s.Former.Identity, s.Fact.Identity))
	case s.Record != nil && !s.Stayed && !s.Asked:
		return slot.Decision{Do: slot.AskNodes, State: slot.Pending}
	case s.ForeignPV != "":
		return skip(s.OfOtherNode())
	case s.Record != nil && !s.Stayed: // what was true when it was cleaned need not be true now
		return unknown(s, s.Record.Generation)
	case s.Record != nil && s.Record.Kind == disk.Device && s.Record.Mode == disk.Filesystem && s.Mode == disk.Block:
		return wipe(s, s.Record.Generation) // clean enough for a file system: old bytes can be read
	case s.Record != nil:
		return slot.Decision{Do: slot.Create, State: slot.Pending, Generation: s.Record.Generation}
	}
	return unknown(s, first)
}

// unknown decides about a disk that no record knows of, or that was away since it was
// cleaned. It has to be empty, and a device is known to be only once all of it was read:
// signatures, ends and samples can show data, not that there is none.
func unknown(s *slot.Slot, first int64) slot.Decision {
	p := s.Predecessor()
	if p != nil {
		first = max(first, s.Predecessors[0].Generation+1)
		if problem := s.OfOtherCluster(); problem != nil {
			return skip(problem)
		}
	}
	create := slot.Decision{Do: slot.Create, State: slot.Pending, Generation: first}
	switch {
	case !s.Asked:
		return slot.Decision{Do: slot.AskNodes, State: slot.Pending}
	case s.Content == disk.ContentNone, p == nil && s.Existing == slot.Publish, s.Acknowledged:
		return create
	case s.Content == disk.ContentUnknown:
		return slot.Decision{Do: slot.Inspect, State: slot.Pending}
	case s.Content == disk.ContentSampled && s.Existing == slot.AssumeBlank && p == nil && !s.Unaccounted:
		return create
	case s.Existing == slot.Clean && (p == nil || !p.Kept()):
		return wipe(s, first)
	case s.Content == disk.ContentSampled:
		return slot.Decision{Do: slot.ProveBlank, State: slot.Pending, Problem: s.ProvingBlank()}
	case p != nil:
		return skip(disk.Problemf(disk.IdentityUnproven, "holds %s, and may be the disk of %s at this path: zero it, or copy what you need, %s", s.Found, volumesOf(s.Predecessors), slot.Acknowledge(s.Acknowledgement())))
	default:
		return skip(notEmpty(s))
	}
}

// notEmpty is why a disk with data of unknown origin is not published.
func notEmpty(s *slot.Slot) *disk.Problem {
	history := "was never published by this node"
	if s.Record != nil {
		history = "was away, or the node restarted, since this node cleaned it"
	}
	return disk.Problemf(disk.NotEmpty,
		"holds %s, and %s: empty it (a device must be zero from end to end), or set existingData of the class; to publish this disk with its data, acknowledge it by its acknowledgement in the node's LocalDiskReport", s.Found, history)
}

// volumesOf names the volumes of records, for a message.
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

// wipe decides about a disk whose unknown data is to be removed.
func wipe(s *slot.Slot, first int64) slot.Decision {
	return ifUnused(s, slot.Decision{Do: slot.Wipe, State: slot.Cleaning, Generation: first})
}

// ifUnused returns d if nothing uses the disk.
func ifUnused(s *slot.Slot, d slot.Decision) slot.Decision {
	switch {
	case !s.UsersKnown:
		return slot.Decision{Do: slot.FindUsers, State: slot.Pending}
	case len(s.Users) > 0:
		return skip(disk.Problemf(disk.InUse, "used by %s", s.Users[0]))
	default:
		return d
	}
}

// published decides about a volume that is free or has a claim.
func published(s *slot.Slot) slot.Decision {
	v := s.Volume
	if !v.Finalized {
		return slot.Decision{Do: slot.AddFinalizer, State: phase(v)}
	}
	if !s.Looked {
		return slot.Decision{Do: slot.None, State: phase(v), Problem: unconfigured(s)}
	}
	d := found(s)
	if mark := markOf(s, d.State); d.Do == slot.None && mark != v.Mark {
		d.Do, d.Mark = slot.MarkDisk, mark
	}
	if d.Do == slot.None && s.PhaseUnrecorded() {
		d.Do = slot.WriteRecord
	}
	return d
}

// found decides about a volume by what is at its path.
func found(s *slot.Slot) slot.Decision {
	v := s.Volume
	if s.Vacant() {
		return vacant(s)
	}
	match := s.Match()
	switch {
	case match == disk.Different:
		return lost(s, slot.Replaced, disk.Problemf(disk.Replaced, "another disk is at %s: put back the one that volume %s was published with, or delete the volume", v.HostPath, v.Name))
	case s.Fact.Problem != nil:
		return troubled(s)
	case match == disk.Unproven:
		return unproven(s)
	}
	return present(s)
}

// markOf is what the volume is to say of its disk. Of one that nobody could look at it
// says what it has said before, and of one that may be the volume's, that it was seen
// to be another one. A disk without a name is most often the same one after a restart; one
// whose name says that the machine is another one, or may have been stopped, is not.
func markOf(s *slot.Slot, state slot.State) disk.Mark {
	switch {
	case state == slot.Missing:
		return disk.MarkMissing
	case state == slot.Replaced:
		return disk.MarkReplaced
	case state == slot.Failing && (s.Volume.Mark != disk.MarkReplaced || s.Match() == disk.Same):
		return disk.MarkFailing
	case s.Vacant(), s.Fact.Identity == "":
		return s.Volume.Mark
	case s.Match() == disk.Unproven && s.Volume.Mark == disk.MarkReplaced:
		return disk.MarkReplaced
	case state == slot.Unproven && s.Volume.Identity != "" && !s.Volume.Identity.Unnamed():
		return disk.MarkUnproven
	default:
		return disk.Unmarked
	}
}

// present decides about a volume whose disk is where it should be.
func present(s *slot.Slot) slot.Decision {
	v := s.Volume
	if problem := s.OfOtherCluster(); problem != nil {
		return slot.Decision{Do: slot.None, State: phase(v), Problem: problem}
	}
	if s.Record != nil && s.Record.State == disk.Cleaning {
		return lost(s, phase(v), disk.Problemf(disk.Interrupted, "the disk is half cleaned, and volume %s was made by hand", v.Name))
	}
	if problem := s.OfVanishedVolume(); problem != nil {
		return slot.Decision{Do: slot.None, State: phase(v), Problem: problem}
	}
	if !s.Recorded() {
		if s.Damaged {
			return slot.Decision{Do: slot.None, State: phase(v), Problem: disk.Problemf(disk.BadRecord, "the node's record of this disk is damaged: remove its file, and it is made again from the volume")}
		}
		return slot.Decision{Do: slot.WriteRecord, State: phase(v)}
	}
	if s.WasAway() {
		return returned(s)
	}
	if size := v.DiskBytes; size != 0 && size != s.Fact.Bytes && !s.Fact.SharesSpace() {
		return lost(s, phase(v), disk.Problemf(disk.Grown, "the disk has %d bytes now and had %d when volume %s was published", s.Fact.Bytes, size, v.Name))
	}
	return slot.Decision{Do: slot.None, State: phase(v), Problem: unconfigured(s)}
}

// returned decides about a free volume whose disk was away.
func returned(s *slot.Slot) slot.Decision {
	switch s.Content {
	case disk.ContentUnknown:
		return slot.Decision{Do: slot.Inspect, State: phase(s.Volume)}
	case disk.ContentNone:
		return slot.Decision{Do: slot.WriteRecord, State: phase(s.Volume)}
	default:
		return lost(s, phase(s.Volume), s.FoundAfterAbsence())
	}
}

// vacant decides about a volume without a disk.
func vacant(s *slot.Slot) slot.Decision {
	problem := disk.Problemf(disk.Missing, "nothing is at %s", s.Volume.HostPath)
	if s.Fact != nil && s.Fact.Problem != nil {
		problem.Message = s.Fact.Problem.Message
	}
	if !s.Absent() {
		return slot.Decision{Do: slot.None, State: phase(s.Volume), Problem: problem}
	}
	return lost(s, slot.Missing, problem)
}

// troubled decides about a volume whose disk is there and should not be used.
func troubled(s *slot.Slot) slot.Decision {
	problem := s.Fact.Problem
	if s.Failing() {
		return lost(s, slot.Failing, problem)
	}
	switch problem.Reason {
	case disk.TimedOut, disk.IOError, disk.Unreadable:
		return slot.Decision{Do: slot.None, State: phase(s.Volume), Problem: problem}
	default:
		return lost(s, phase(s.Volume), problem)
	}
}

// unproven decides about a volume that cannot be told to have its disk. What was
// never claimed is published anew, if the disk is empty; what was, waits.
func unproven(s *slot.Slot) slot.Decision {
	v := s.Volume
	if v.Identity == "" {
		if s.Record != nil && s.Record.Volume != v.Name {
			return slot.Decision{Do: slot.None, State: slot.Unproven, Problem: disk.Problemf(disk.SameBytes, "the disk was published as volume %s", s.Record.Volume)}
		}
		if problem := s.OfOtherCluster(); problem != nil {
			return slot.Decision{Do: slot.None, State: phase(v), Problem: problem}
		}
		return slot.Decision{Do: slot.WriteRecord, State: phase(v)} // adopted, and never seen before
	}
	return lost(s, slot.Unproven, s.Unproven())
}

// lost withdraws a volume that nobody has claimed, and tells of one that somebody
// has.
func lost(s *slot.Slot, state slot.State, problem *disk.Problem) slot.Decision {
	if v := s.Volume; v.Claimed || v.Phase == disk.PhaseBound {
		return slot.Decision{Do: slot.None, State: state, Problem: problem}
	}
	return slot.Decision{Do: slot.Remove, State: state, Problem: problem}
}

func phase(v *disk.Volume) slot.State {
	switch v.Phase {
	case disk.PhaseAvailable:
		return slot.Available
	case disk.PhaseBound:
		return slot.Bound
	default:
		return slot.Pending
	}
}

func skip(problem *disk.Problem) slot.Decision {
	return slot.Decision{Do: slot.None, State: slot.Skipped, Problem: problem}
}

// unconfigured tells that the configuration has not got the slot any more; nil if it has.
func unconfigured(s *slot.Slot) *disk.Problem {
	if s.Configured {
		return nil
	}
	return notConfigured(s.Key)
}

func notConfigured(key disk.Key) *disk.Problem {
	return disk.Problemf(disk.NotConfigured, "the configuration does not ask for %s any more", key)
}
