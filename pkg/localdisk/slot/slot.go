// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slot holds all that a decision about one entry of a discovery directory
// rests on (Slot), and the form that decisions take (Decision). Packages discovery
// and reclaim decide; the node agent gathers before and acts after.
package slot

import (
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Existing is what a class wants done with a disk that holds data which no record
// knows of: existingData in the agent's configuration.
type Existing string

// The choices.
const (
	Refuse  Existing = "Refuse"
	Publish Existing = "Publish"
	Clean   Existing = "Clean"
	// AssumeBlank: a new device is not read from end to end before it is published.
	AssumeBlank Existing = "AssumeBlank"
)

// Slot is what is known about an entry of a discovery directory. Deciding changes
// nothing of it.
type Slot struct {
	Key disk.Key
	// Configured says that the configuration has the class; Existing is what it says
	// about data that is found.
	Configured bool
	Existing   Existing
	// Cluster is the UID of this cluster's namespace kube-system.
	Cluster string
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
	// Predecessors are the dirty records of disks that were at the path before, the latest
	// first, of which each may be the disk that is here: one of the two has no identity that
	// lasts. Unaccounted reports whether a dirty disk of any path may be the one that is here.
	Predecessors []disk.Record
	Unaccounted  bool

	// Volume is our volume of this slot, and VolumeRecord what the node remembers of
	// the disk that it was published with. The two records are the same one as long
	// as the disk is.
	Volume       *disk.Volume
	VolumeRecord *disk.Record
	// Rebuilt says that the node has no record of the volume's disk, readable or not, although
	// another disk is at the path: it was set up anew since the volume was published.
	Rebuilt bool
	// Former is the record of a disk that differs from the one at the path in the machine
	// only; nil if there is none or Record is there.
	Former *disk.Record

	// Elsewhere names a volume of another slot that offers the disk which is here;
	// Foreign one that is not ours and has the path.
	Elsewhere, Foreign string

	// Link is the device node that the volume's link leads to (disk.Volume.Link); empty if
	// there is no link.
	Link string
	// Superblock is what was read of the device; nil if it was not read.
	Superblock *disk.Superblock

	// Stayed reports whether the disk has been attached without interruption since
	// Record.Attachment was recorded. If not, another node may have written to it.
	Stayed bool
	// Asked says that the other nodes were asked about the disk: their reports whether a
	// volume of it was lost, of which the disk has a record since, and if this node has
	// had the disk before, whether a volume of theirs has it. ForeignPV names that one.
	Asked     bool
	ForeignPV string
	// Content is whether there is data, if somebody has looked; Found is what it was.
	Content disk.Content
	Found   string
	// Cleaner is the ID of a process that was killed while it cleaned the disk, and cannot end
	// because a disk does not answer; 0 if there is none. It may write to the disk still.
	Cleaner int
	// Users is who uses the disk, if somebody has looked (UsersKnown).
	Users      []disk.User
	UsersKnown bool
	// Acknowledged reports whether an administrator wants the disk published with its data,
	// or the record of another cluster taken over: the data named by Acknowledgement.
	Acknowledged bool
	// GraceOver says that the grace period since Record.Missed is over, GraceUntil when
	// it is. Granted says that the controller allows the disk to be cleaned although
	// its volume is gone.
	GraceOver  bool
	GraceUntil time.Time
	Granted    bool
}

// OfOtherCluster is why a disk is left alone whose record another cluster wrote; nil if
// this cluster did, or an administrator acknowledged it.
func (s *Slot) OfOtherCluster() *disk.Problem {
	r := s.Record
	if r == nil {
		r = s.Predecessor()
	}
	if !s.OtherClusters(r) {
		return nil
	}
	of := "another cluster"
	if r.Cluster != "" {
		of += " (kube-system has UID " + r.Cluster + ")"
	}
	return disk.Problemf(disk.OtherCluster,
		"this node's record of the disk is from %s, so its data may be in use there: make sure that it is not; %s", of, Acknowledge(s.Acknowledgement()))
}

// OtherClusters says whether another cluster wrote a record, and no administrator
// acknowledged it. The record and its disk are left as they are.
func (s *Slot) OtherClusters(r *disk.Record) bool {
	acknowledged := s.Acknowledged && r != nil && (s.Record == nil || r.Identity == s.Record.Identity)
	return r != nil && r.Cluster != s.Cluster && !acknowledged
}

// OfVanishedVolume is why a volume is left alone whose disk was last in use by another
// volume of this cluster, which is gone; nil if it was not.
func (s *Slot) OfVanishedVolume() *disk.Problem {
	r, v := s.Record, s.Volume
	if r == nil || !r.State.Dirty() || r.Volume == "" || r.Phase != disk.PhaseBound || s.Acknowledged {
		return nil
	}
	if r.Volume == v.Name && (r.UID == "" || r.UID == v.UID) {
		return nil
	}
	return disk.Problemf(disk.VolumeVanished,
		"the disk holds the data of volume %s with UID %s, which was Bound and is gone, perhaps because etcd was restored: copy what you need; %s", r.Volume, r.UID, Acknowledge(s.Acknowledgement()))
}

// Acknowledgement names the data on the disk at the path: that of its record; that of the
// predecessor, on the disk that is here; or else whatever a disk that no volume was published
// of has on it while it stays attached. Empty if there is nothing that an administrator could
// acknowledge.
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

// Acknowledge says how to acknowledge data by its name, as the end of a message.
func Acknowledge(name string) string {
	return "then acknowledge it with `stowage-provisioner acknowledge` or annotation stowage.dev/publish-retained=" + name + " on the node's LocalDiskReport"
}

// OfOtherNode is why a disk that ForeignPV has is left alone.
func (s *Slot) OfOtherNode() *disk.Problem {
	return disk.Problemf(disk.OtherNodesVolume,
		"%s has this disk's identity, so what is on it may be that volume's: take the disk to that node; delete the volume if nobody needs it; or, if these are two disks, remove this node's record of the one that is here", s.ForeignPV)
}

// BeingCleaned is why a disk is left alone that Cleaner may write to; nil if there is none.
func (s *Slot) BeingCleaned() *disk.Problem {
	if s.Cleaner == 0 {
		return nil
	}
	return disk.Problemf(disk.TimedOut,
		"process %d, an earlier provisioner, was killed while it cleaned and cannot end because a disk does not answer: the disk is left alone until the process has ended; look at the disk and the kernel's log, or restart the node", s.Cleaner)
}

// ProvingBlank is why a disk that has to be blank is not published yet.
func (s *Slot) ProvingBlank() *disk.Problem {
	return disk.Problemf(disk.ProvingBlank, "no data was found so far; all of its %d bytes are read before it is published", s.Fact.Bytes)
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

// OtherMachine says whether the volume was published on another machine that had the
// node's name: both show disks of the same serial number, and what the first one
// remembered is gone. After an exchange of the mainboard the node still remembers its disks.
func (s *Slot) OtherMachine() bool {
	return s.Rebuilt && s.Volume != nil && s.Fact != nil && s.Volume.Accepted != s.Fact.Identity && s.Volume.Identity.Moved(s.Fact.Identity)
}

// Unproven is why the disk at the path may not be the volume's, and what to do about it.
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
			"the disk at %s has no identity that outlives a restart, so it may be another one; if it is the same, annotate volume %s with stowage.dev/same-disk=%s", v.HostPath, v.Name, found)
	}
}

// MachineChanged is why no disk of a node whose machine is another one is proven to be the
// same, and how to say so once for all of them.
func MachineChanged(before, now disk.Identity) *disk.Problem {
	return disk.Problemf(disk.IdentityUnproven,
		"the node's machine was %s and is %s: another mainboard, or another machine under the node's name, whose disks may have the same serial numbers; if it has the disks that it had, annotate the node's LocalDiskReport with stowage.dev/same-machine=%s:%s, once for all of them",
		before.Machine(), now.Machine(), before.Machine(), now.Machine())
}

// Recorded says whether the node remembers the volume as it is now, on the disk that is
// at the path, and that the disk is dirty. A volume of the same name with another UID is
// another one: what was done for the first says nothing about the second.
func (s *Slot) Recorded() bool {
	r, v := s.Record, s.Volume
	return r != nil && r.Cluster == s.Cluster && r.Volume == v.Name && (r.UID == "" || r.UID == v.UID) && r.Policy == v.Policy &&
		r.State.Dirty() && (r.State != disk.Retained || v.Deleting) && r.Missed.IsZero() && s.Fact != nil && v.Identity == s.Fact.Identity
}

// AsPublished reports whether the content of the disk is compared with what a clean leaves:
// of a volume without a claim, and of a device that this node cleaned, or offered without
// an observed claim, for a file system. Its clean may have left old bytes, which kubelet's
// mkfs hides; what a pod has written has a signature.
func (s *Slot) AsPublished() bool {
	r := s.Record
	if s.Volume != nil {
		return true
	}
	return r != nil && r.Cluster == s.Cluster && (r.State == disk.Clean || r.State == disk.Published && r.Unclaimed()) &&
		r.Kind == disk.Device && r.Mode == disk.Filesystem && s.Mode == disk.Filesystem
}

// WasAway reports whether the disk of a volume that never had a claim was detached or
// unmounted, or the node restarted, since the disk was last known to be empty. The disk may
// have been written to elsewhere.
func (s *Slot) WasAway() bool {
	r, v := s.Record, s.Volume
	return v != nil && !v.Claimed && s.Recorded() && s.Fact.Problem == nil && r.State == disk.Published && r.Unclaimed() &&
		r.Attachment != "" && !r.Accepted && !s.Stayed
}

// FoundAfterAbsence is why a volume that WasAway is withdrawn when data is found on its disk.
func (s *Slot) FoundAfterAbsence() *disk.Problem {
	return disk.Problemf(disk.NotEmpty,
		"the disk of volume %s was away or the node restarted, and it holds %s now, which no pod of the volume wrote: the volume is withdrawn and the data kept", s.Volume.Name, s.Found)
}

// PhaseUnrecorded says whether the record of the volume's disk has another phase than
// the volume was observed in.
func (s *Slot) PhaseUnrecorded() bool {
	r, v := s.VolumeRecord, s.Volume
	return r != nil && v.Identity != "" && r.Cluster == s.Cluster && r.Volume == v.Name && (r.UID == "" || r.UID == v.UID) &&
		r.State == disk.Published && r.Phase != v.Seen()
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
