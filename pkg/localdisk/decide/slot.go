// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide has the rules of the local provisioner, without clock, client or disk. A
// Slot is all that is known about one entry of a discovery directory; Publish, Reclaim and
// Link return a Decision: the next action, and what to report. The provisioner gathers the
// slot before and carries the action out after.
package decide

import (
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
	Existing   Existing
	// Cluster is the UID of this cluster's namespace kube-system.
	Cluster string
	// Mode is the volume mode that the class offers disks in.
	Mode disk.Mode

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

	// Link is the device node that the volume's link (disk.Volume.Link) points to; empty if
	// there is no link.
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
	// NodesAsked reports whether the disk was searched for in the reports of all nodes: for a
	// tombstone of its volume, from which its record is then written, and, if this node had
	// the disk before, for a volume of another node that has it, which ForeignPV names.
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

// OfOtherCluster returns the problem of a disk whose record another cluster wrote; nil if
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

// OtherClusters reports whether another cluster wrote a record and no administrator
// acknowledged it. The record and its disk must not be changed then.
func (s *Slot) OtherClusters(r *disk.Record) bool {
	acknowledged := s.Acknowledged && r != nil && (s.Record == nil || r.Identity == s.Record.Identity)
	return r != nil && r.Cluster != s.Cluster && !acknowledged
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

// Acknowledge returns the end of a message that explains how to acknowledge data.
func Acknowledge(name string) string {
	return "then acknowledge it with `stowage-provisioner acknowledge` or annotation stowage.dev/publish-retained=" + name + " on the node's LocalDiskReport"
}

// OfOtherNode returns the problem of a disk that ForeignPV has.
func (s *Slot) OfOtherNode() *disk.Problem {
	return disk.Problemf(disk.OtherNodesVolume,
		"%s has this disk's identity, so its data may be that volume's: move the disk to that node; delete the volume if it is not needed; or, if these are two disks, remove this node's record of its own disk", s.ForeignPV)
}

// BeingCleaned returns the problem of a disk that Cleaner may write to; nil if there is none.
func (s *Slot) BeingCleaned() *disk.Problem {
	if s.Cleaner == 0 {
		return nil
	}
	return disk.Problemf(disk.TimedOut,
		"process %d, an earlier provisioner, was killed while it cleaned and cannot end because a disk does not answer: the disk is not touched until the process has ended; check the disk and the kernel's log, or restart the node", s.Cleaner)
}

// ProvingBlank returns why a disk that has to be blank is not published yet.
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

// OtherMachine reports whether the volume was published on another machine that had the
// node's name: the disks of both have the same serial number, and the records of the first
// are gone. After an exchange of the mainboard the node still has its records.
func (s *Slot) OtherMachine() bool {
	return s.Rebuilt && s.Volume != nil && s.Fact != nil && s.Volume.Accepted != s.Fact.Identity && s.Volume.Identity.Moved(s.Fact.Identity)
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

// isOf reports whether a record is of a volume. A volume of the same name with another UID is
// another volume; a record that was written before the volume has no UID.
func isOf(r *disk.Record, v *disk.Volume) bool {
	return r.Volume == v.Name && (r.UID == "" || r.UID == v.UID)
}

// Recorded reports whether the record of the disk at the path is dirty and describes the
// volume as it is now.
func (s *Slot) Recorded() bool {
	r, v := s.Record, s.Volume
	return r != nil && r.Cluster == s.Cluster && isOf(r, v) && r.Policy == v.Policy &&
		r.State.Dirty() && (r.State != disk.Retained || v.Deleting) && r.Missed.IsZero() && s.Fact != nil && v.Identity == s.Fact.Identity
}

// AsPublished reports whether the content of the disk is compared with what a clean leaves:
// for a volume without a claim, and for a device that this node cleaned, or offered without
// an observed claim, for a file system. A clean may leave old bytes, which kubelet's mkfs
// hides; what a pod has written has a signature.
func (s *Slot) AsPublished() bool {
	r := s.Record
	if s.Volume != nil {
		return true
	}
	return r != nil && r.Cluster == s.Cluster && (r.State == disk.Clean || r.State == disk.Published && r.Unclaimed()) &&
		r.Kind == disk.Device && r.Mode == disk.Filesystem && s.Mode == disk.Filesystem
}

// PhaseUnrecorded reports whether the record of the volume's disk has another phase than
// the observed one.
func (s *Slot) PhaseUnrecorded() bool {
	r, v := s.VolumeRecord, s.Volume
	return r != nil && v.Identity != "" && r.Cluster == s.Cluster && isOf(r, v) &&
		r.State == disk.Published && r.Phase != v.Seen()
}
