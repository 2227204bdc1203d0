// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide has the rules of the local provisioner, without clock, client or disk. A
// Slot is all that is known about one entry of a discovery directory; Decide returns a
// Decision: the next action, and what to report. The provisioner gathers the slot before and
// carries the action out after.
package decide

import (
	"cmp"
	"slices"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Existing is what a class does with a disk that holds data of unknown origin: existingData
// in the provisioner's configuration.
type Existing string

// The choices.
const (
	ExistingRefuse  Existing = "Refuse"
	ExistingPublish Existing = "Publish"
	ExistingClean   Existing = "Clean"
	// ExistingAssumeBlank: publish a new device without reading all of it.
	ExistingAssumeBlank Existing = "AssumeBlank"
)

// Slot is what is known about an entry of a discovery directory. Decisions do not change it.
type Slot struct {
	Key disk.Key
	// Path is the entry's path on the node.
	Path string
	// Configured reports whether the configuration has the slot's class and a pattern that
	// matches its name.
	Configured bool
	// ByRule reports whether rules select the disks of the class. Configured reports then whether
	// they select this disk.
	ByRule   bool
	Existing Existing
	// Cluster is the UID of this cluster's namespace kube-system.
	Cluster string
	// Mode is the volume mode that the class offers disks in.
	Mode disk.Mode
	// FSType is the class's file system. MountedHere reports whether the provisioner makes and
	// mounts those of the class's devices.
	FSType      string
	MountedHere bool

	// DirectoryRead reports whether the directory was read. If not, Fact is unknown.
	DirectoryRead bool
	// Fact is what is at the path now; nil if nothing is. MissedScans counts consecutive scans that
	// found no disk there.
	Fact        *disk.Fact
	MissedScans int
	// Since is when the disk was first found as it is.
	Since time.Time
	// Persistent reports whether the disk has failed the last FaultScans scans (Fault).
	Persistent bool
	// Unhealthy reports whether Fact.Problem is that of a failing disk (AddHealth); Degraded is why
	// the disk is degraded, nil if it is not.
	Unhealthy bool
	Degraded  *disk.Problem
	// Record is the node's record of the disk at the path. Damaged reports whether there is a
	// record that cannot be read.
	Record  *disk.Record
	Damaged bool
	// Predecessors are the dirty records of disks that were at the path before, the latest
	// first. Each may describe the present disk: one of the two identities is not persistent.
	// Unaccounted reports whether a dirty disk of any path may be the present one.
	Predecessors []disk.Record
	Unaccounted  bool

	// Volume is the provisioner's volume of this slot, and VolumeRecord the record of the disk
	// that it was published with: the same as Record unless the disk was replaced.
	Volume       *disk.Volume
	VolumeRecord *disk.Record
	// Rebuilt reports whether the node has no record of the volume's disk, not even a damaged
	// one, although another disk is at the path: the node was reinstalled since the volume was
	// published.
	Rebuilt bool
	// Former is the record of a disk whose identity differs from that at the path by the
	// machine only; nil if there is none or Record is set.
	Former *disk.Record

	// DuplicatePV names a volume of another slot that offers the same disk; UnmanagedPV names one of
	// the path that is not the provisioner's.
	DuplicatePV, UnmanagedPV string
	// Displaced is the only volume of the class that offers the same disk, if its slot is not in the
	// folder of the class: the class had another folder. Nil for none.
	Displaced *disk.Volume

	// Link is the device node that the volume's link (disk.Volume.Link) points to, or whose file
	// system is mounted there; empty if there is no link or mount.
	Link string

	// Stayed reports whether the disk has been attached without interruption since
	// Record.Attachment was recorded. If not, another node may have written to it.
	Stayed bool
	// Cleaner is the ID of a process that was killed while it cleaned the disk and cannot exit
	// because a disk does not answer; 0 if there is none. It may still write to the disk.
	Cleaner int
	// Acknowledged reports whether an administrator acknowledged the data that Acknowledgement
	// names: the disk is published with its data, or the record of another cluster taken over.
	Acknowledged bool
	// GraceOver reports whether the grace period since Record.Missed has ended; GraceUntil is
	// its end. CleanAllowed reports whether the controller allows the disk to be cleaned although
	// its volume is gone.
	GraceOver    bool
	GraceUntil   time.Time
	CleanAllowed bool

	Answers
}

// Answers are what the questions of earlier decisions found out about the disk.
type Answers struct {
	// NodesAsked reports whether what all nodes had was searched: for a tombstone of the disk's
	// volume, from which its record is then written, and, if this node had the disk before, for
	// a volume of another node that has it, which ForeignPV names.
	NodesAsked bool
	ForeignPV  string
	// Content is whether there is data, if the disk was inspected; Found is what was found.
	Content disk.Content
	Found   string
	// Users are the uses of the disk, if UsersKnown.
	Users      []disk.User
	UsersKnown bool
	// Superblock is nil if it was not read.
	Superblock *disk.Superblock
}

// VolumeName returns the name of the disk's volume, present or recorded; empty if there is none.
func (s *Slot) VolumeName() string {
	switch {
	case s.Volume != nil:
		return s.Volume.Name
	case s.Record != nil:
		return s.Record.Volume
	default:
		return ""
	}
}

// OfferedMode returns the mode that the disk is or will be offered in.
func (s *Slot) OfferedMode() disk.Mode {
	switch {
	case s.Volume != nil:
		return s.Volume.Mode
	case s.Record != nil && s.Record.State.Dirty() && s.Record.Mode != "":
		return s.Record.Mode
	case s.Mode != "":
		return s.Mode
	default:
		return disk.Filesystem
	}
}

// Acknowledgement names the data on the disk at the path, by which an administrator
// acknowledges it: by its record; else by the predecessor's record and the disk's identity;
// else, for a disk without a volume, by its identity and attachment. Empty if there is nothing
// to acknowledge.
func (s *Slot) Acknowledgement() string {
	switch r := s.Record; {
	case r != nil && (r.State.Dirty() || r.Cluster != s.Cluster):
		return r.Acknowledgement()
	case s.Volume != nil || s.Fact == nil || s.Fact.Identity == "" || s.Former != nil:
		return ""
	case len(s.Predecessors) > 0:
		return s.Predecessor().AcknowledgementAs(s.Fact.Identity)
	case s.Fact.Attachment != "":
		return disk.AcknowledgementOf(s.Fact.Identity, string(s.Fact.Attachment))
	default:
		return ""
	}
}

// Match compares the disk at the path with the volume's.
func (s *Slot) Match() disk.Match {
	if s.Volume == nil || s.Fact == nil {
		return disk.Unproven
	}
	match := s.Volume.Matches(s.Fact.Identity)
	if match == disk.Unproven && s.OtherMachine() {
		return disk.Different
	}
	return match
}

// OtherMachine reports whether the volume was published on another machine that had the
// node's name: the disks of both have the same serial number, and the records of the first
// are gone. After an exchange of the mainboard the node still has its records.
func (s *Slot) OtherMachine() bool {
	return s.Rebuilt && s.Volume != nil && s.Fact != nil && s.Volume.Accepted != s.Fact.Identity && s.Volume.Identity.Moved(s.Fact.Identity)
}

// AsPublished returns OfferedMode, and whether the content of the disk is compared with what a
// clean leaves in that mode: for a volume without a claim, and for a device that this node cleaned, or offered without
// an observed claim, for a file system. A clean may leave old bytes, which kubelet's mkfs
// hides; what a pod has written has a signature.
func (s *Slot) AsPublished() (mode disk.Mode, compared bool) {
	r := s.Record
	return s.OfferedMode(), s.Volume != nil || r != nil && r.Cluster == s.Cluster && (r.State == disk.Clean || r.State == disk.Published && r.Unclaimed()) &&
		r.Kind == disk.Device && r.Mode == disk.Filesystem && s.Mode == disk.Filesystem
}

// Made returns the file system that the provisioner made on the disk, as the disk or the one that
// it may be was recorded, if no claim has written to it (disk.Record.Made); nil if there is none.
func (s *Slot) Made() *disk.Format {
	r := s.Record
	if r == nil {
		r = s.Predecessor()
	}
	if r == nil || r.Cluster != s.Cluster || s.Volume != nil && s.Volume.Claimed {
		return nil
	}
	return r.Made()
}

// Predecessors returns the records of dirty disks that a disk without a record may be. Weak
// identities (disk.Identity.Weak) change when the node restarts or the disk is attached again,
// so the record of such a disk is found by its path. at are the records of the path, weak the
// weak identities of all dirty disks, and present the identities of all disks that are
// attached now, this one included: their records belong to them. predecessors are ordered by
// generation, the latest first. unaccounted reports whether a dirty disk of any path may be
// this one.
func Predecessors(identity disk.Identity, at []disk.Record, weak []disk.Identity, present map[disk.Identity]bool) (predecessors []disk.Record, unaccounted bool) {
	for i := range at {
		if r := &at[i]; r.State.Dirty() && !present[r.Identity] && mayFollow(identity, r.Identity) {
			predecessors = append(predecessors, *r)
		}
	}
	slices.SortStableFunc(predecessors, func(a, b disk.Record) int { return cmp.Compare(b.Generation, a.Generation) })
	return predecessors, len(predecessors) > 0 || identity.Weak() && slices.ContainsFunc(weak, func(other disk.Identity) bool {
		return !present[other] && other.Compare(identity) == disk.Unproven
	})
}

// mayFollow reports whether the disk at a path may be the one that was there earlier under
// another identity: where Compare proves nothing, or a disk without a name was attached again,
// which changes its identity within the same boot.
func mayFollow(now, earlier disk.Identity) bool {
	again := now.Unnamed() && earlier.Unnamed() && now.Kind() == earlier.Kind()
	return again || now != earlier && now.Compare(earlier) == disk.Unproven
}

// Predecessor returns the strictest predecessor: one of another cluster, else one whose data
// is to be kept, else the latest; nil if there is none.
func (s *Slot) Predecessor() *disk.Record {
	if len(s.Predecessors) == 0 {
		return nil
	}
	rank := func(r disk.Record) int {
		switch {
		case r.Cluster != s.Cluster:
			return 0
		case kept(&r):
			return 1
		default:
			return 2
		}
	}
	strictest := slices.MinFunc(s.Predecessors, func(a, b disk.Record) int { return cmp.Compare(rank(a), rank(b)) })
	return &strictest
}

// ForReclaim reports whether a slot is for Reclaim, and not for Publish: its volume is
// released, failed or being deleted, or it has none and its disk is dirty.
func ForReclaim(s *Slot) bool {
	if v := s.Volume; v != nil {
		return v.Deleting || v.Phase == disk.PhaseReleased || v.Phase == disk.PhaseOfFailed
	}
	return s.Fact != nil && s.Record != nil && (s.Record.State.Dirty() || s.Record.Cluster != s.Cluster)
}

// kept reports whether the data of a dirty disk is to be kept: its clean has not begun, or its
// volume was not to be deleted.
func kept(r *disk.Record) bool { return r.State != disk.Cleaning || r.Policy != disk.Delete }
