// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slot holds all that a decision about one entry of a discovery directory
// rests on (Slot), and the form that decisions take (Decision). Packages discovery
// and reclaim decide; the node agent gathers before and acts after.
package slot

import "stowage.dev/stowage/pkg/local/disk"

// Existing is what a class wants done with a disk that holds data which no record
// knows of: existingData in the agent's configuration.
type Existing string

// The choices.
const (
	Refuse  Existing = "Refuse"
	Publish Existing = "Publish"
	Clean   Existing = "Clean"
)

// Slot is what is known about an entry of a discovery directory. Deciding changes
// nothing of it.
type Slot struct {
	Key disk.Key
	// Configured says that the configuration has the class; Existing is what it says
	// about data that is found.
	Configured bool
	Existing   Existing
	// Mode is the volume mode that the class offers disks in.
	Mode disk.Mode

	// Looked says that the directory was read. If not, nothing is known of Fact.
	Looked bool
	// Fact is what is at the path now; nil if nothing is. Gone counts how many looks
	// in a row have found no disk there.
	Fact *disk.Fact
	Gone int
	// Persistent says that the disk has given no good answer for FaultLooks looks (Fault).
	Persistent bool
	// Record is what the node remembers of the disk that is at the path now; Damaged
	// says that there is a record that cannot be read.
	Record  *disk.Record
	Damaged bool

	// Volume is our volume of this slot, and VolumeRecord what the node remembers of
	// the disk that it was published with. The two records are the same one as long
	// as the disk is.
	Volume       *disk.Volume
	VolumeRecord *disk.Record
	// Elsewhere names a volume of another slot that offers the disk which is here;
	// Foreign one that is not ours and has the path.
	Elsewhere, Foreign string

	// Stayed says that the disk has been here since Record was written. If not, another
	// node may have had it meanwhile.
	Stayed bool
	// Asked says that the other nodes were asked about the disk: their reports whether a
	// volume of it was lost, of which the disk has a record since, and if this node has
	// had the disk before, whether a volume of theirs has it. Claimant names that one.
	Asked    bool
	Claimant string
	// Content is whether there is data, if somebody has looked; Found is what it was.
	Content disk.Content
	Found   string
	// Users is who uses the disk, if somebody has looked (UsersKnown).
	Users      []disk.User
	UsersKnown bool
	// Acknowledged says that an administrator wants the data of a retained disk
	// published.
	Acknowledged bool
}

// OfOtherNode is why a disk that Claimant has is left alone.
func (s *Slot) OfOtherNode() *disk.Problem {
	return disk.Problemf(disk.OtherNodesVolume,
		"%s has this disk's identity, so what is on it may be that volume's: take the disk to that node; delete the volume if nobody needs it; or, if these are two disks, remove this node's record of the one that is here", s.Claimant)
}

// Match compares the disk at the path with the volume's.
func (s *Slot) Match() disk.Match {
	if s.Volume == nil || s.Fact == nil {
		return disk.Unproven
	}
	return s.Volume.Matches(s.Fact.Identity)
}

// Recorded says whether the node remembers the volume as it is now, on the disk that is
// at the path, and that the disk is dirty. A volume of the same name with another UID is
// another one: what was done for the first says nothing about the second.
func (s *Slot) Recorded() bool {
	r, v := s.Record, s.Volume
	return r != nil && r.Volume == v.Name && (r.UID == "" || r.UID == v.UID) && r.Policy == v.Policy && r.State.Dirty() &&
		s.Fact != nil && v.Identity == s.Fact.Identity
}

// GoneAfter is how many looks in a row must find nothing before that is believed:
// a remount takes the first away for a moment.
const GoneAfter = 2

// Absent says whether it is certain that the path leads to no disk at all: neither
// the volume's nor another.
func (s *Slot) Absent() bool {
	return s.Looked && s.Gone >= GoneAfter && s.Vacant()
}

// Vacant says whether the last look found no disk.
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
