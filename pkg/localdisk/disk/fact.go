// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disk has the types that the packages below localdisk share: what is at a path
// (Fact), which disk it is (Identity, Place), the node's record of it (Record), its volume
// (Volume), and requests to find and clean disks (Scan, CleanRequest). It depends on neither
// devices nor Kubernetes.
package disk

import (
	"fmt"
	"strings"
	"time"
)

// Key names a slot: an entry of the discovery directory of a class. At most one
// volume at a time is published for a slot.
type Key struct {
	// Class is the storage class, Name the entry's name in the class's directory.
	Class string `json:"class"`
	Name  string `json:"name"`
}

func (k Key) String() string { return k.Class + "/" + k.Name }

// Attachment is "<boot>/diskseq:<number>", "<boot>/mount:<number>" or, on kernels that give
// the ID of a mount to later mounts too, "<boot>/mount-id:<number>".
type Attachment string

// Continue returns the attachment as observed by one process, which observed last before;
// empty if it did not. A mount ID that may be reused is valid only while the process observes
// it without interruption, so the time of the first observation is added.
func (a Attachment) Continue(last Attachment, now time.Time) Attachment {
	if !strings.Contains(string(a), "/mount-id:") {
		return a
	}
	if strings.HasPrefix(string(last), string(a)+"/") {
		return last
	}
	return Attachment(fmt.Sprintf("%s/%d", a, now.UnixNano()))
}

// Kind is what is at a path.
type Kind string

// The kinds.
const (
	Mount     Kind = "Mount"     // a mounted file system
	Device    Kind = "Device"    // a block device, or a symlink to one
	Directory Kind = "Directory" // a plain directory that a pattern of the class matches
)

// Mode is how a volume is offered: spec.volumeMode of a PersistentVolume.
type Mode string

// The modes.
const (
	Filesystem Mode = "Filesystem"
	Block      Mode = "Block"
)

// Fact is what was found at a path, without reading any of its bytes.
type Fact struct {
	Key
	// HostPath is the path on the node, which a volume names; Path is the same in the
	// provisioner's mount namespace. Symlinks are not resolved in either.
	HostPath, Path string
	// Device is the node of a block device, symlinks resolved, in the provisioner's mount
	// namespace ("/dev/sdb1"); empty for other kinds.
	Device string
	Kind   Kind
	// FilesystemType is the type of a Mount, or of the file system of a Directory ("ext4").
	FilesystemType string
	Identity       Identity
	// Place is equal for two paths that lead to the same bytes: "dev:<major>:<minor>"
	// or "fs:<major>:<minor>:<root>".
	Place string
	// Overlaps are the Places that share bytes with this one without being it: the
	// disk of a partition, the partitions of a disk, the device of a mount.
	Overlaps []string
	// Attachment names an uninterrupted presence of the disk on the node. It changes when the
	// disk is detached or unmounted, and when the node restarts; empty if unknown.
	Attachment Attachment
	// Bytes is the size of the device, or of the file system.
	Bytes int64
	// Problem is why this cannot be a volume; nil for a good candidate. With a problem, what
	// could not be determined is empty.
	Problem *Problem
}

// SharesSpace reports whether the size of the file system changes with what others write: that
// of a ZFS dataset is what it holds and what its pool has left.
func (f *Fact) SharesSpace() bool { return f.FilesystemType == "zfs" }

// Problem is why something is not done, for users.
type Problem struct {
	Reason Reason
	// Message is a sentence: what was found, and what to do about it.
	Message string
}

// Error makes a problem an error.
func (p *Problem) Error() string { return fmt.Sprintf("%s: %s", p.Reason, p.Message) }

// Problemf makes a problem.
func Problemf(reason Reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Reason is machine-readable, for users and their alerts: it is in reports, events and
// metrics, and does not change between releases.
type Reason string

// Why a candidate is not published.
const (
	SpecialFile           Reason = "SpecialFile"           // neither directory nor block device
	NotMountPoint         Reason = "NotMountPoint"         // a plain directory that no pattern matches
	MountMissing          Reason = "MountMissing"          // something is to be mounted here, and is not
	WrongVolumeMode       Reason = "WrongVolumeMode"       // a file system, and the class's mode is Block
	UnsupportedFilesystem Reason = "UnsupportedFilesystem" // network, overlay, autofs, proc and the like
	OutsideDirectory      Reason = "OutsideDirectory"      // leads out of the discovery directory
	DiscoveryDirectory    Reason = "DiscoveryDirectory"    // is the discovery directory itself
	InUse                 Reason = "InUse"                 // the node uses it for something else
	SameBytes             Reason = "SameBytes"             // another path leads to the same bytes
	ReadOnly              Reason = "ReadOnly"              // mounted read-only
	DeviceReadOnly        Reason = "DeviceReadOnly"        // the device rejects writes
	FilesystemError       Reason = "FilesystemError"       // the kernel stopped writing to the file system after an error
	IOError               Reason = "IOError"               // the disk, or the file system on it, answers with an I/O error
	TimedOut              Reason = "TimedOut"              // did not answer
	WriteLost             Reason = "WriteLost"             // the kernel could not write data that a program had written
	DiskErrors            Reason = "DiskErrors"            // errors were counted
	Hung                  Reason = "Hung"                  // requests are not answered
	DriveWarning          Reason = "DriveWarning"          // the drive reports that it is worn
	DriveFailing          Reason = "DriveFailing"          // the drive reports that it is not reliable
	Unreadable            Reason = "Unreadable"            // could not be examined, perhaps not because of the disk
	NoCapacity            Reason = "NoCapacity"            // has no bytes
	NotEmpty              Reason = "NotEmpty"              // holds data of unknown origin
	ProvingBlank          Reason = "ProvingBlank"          // must be blank, and is still being read
	ForeignVolume         Reason = "ForeignVolume"         // the path belongs to a volume that is not the provisioner's
	OtherNodesVolume      Reason = "OtherNodesVolume"      // a volume of another node has the disk
	NotConfigured         Reason = "NotConfigured"         // the class or the name is no longer configured
	BadRecord             Reason = "BadRecord"             // the node's record cannot be read
	ClassMissing          Reason = "StorageClassMissing"   // the StorageClass does not exist
	InvalidClass          Reason = "StorageClassInvalid"   // the StorageClass requests what local volumes do not support
	SeveralClasses        Reason = "SeveralClasses"        // the rules of several classes select the disk
)

// Why a disk is not eligible, besides reasons of candidates.
const (
	NoHardware     Reason = "NoHardware"     // made of other devices, of a file or of memory
	Removable      Reason = "Removable"      // may be taken out by hand, such as a card or a virtual CD
	Networked      Reason = "Networked"      // a volume of a cloud or a SAN, which other machines can attach
	Unidentified   Reason = "Unidentified"   // the kernel reports nothing that identifies it
	SharedIdentity Reason = "SharedIdentity" // several devices have its identity
	Partitioned    Reason = "Partitioned"    // it has partitions
)

// Why a volume is not as it should be, or not cleaned.
const (
	Missing           Reason = "Missing"           // nothing is at the volume's path
	Replaced          Reason = "Replaced"          // another disk is at the volume's path
	IdentityUnproven  Reason = "IdentityUnproven"  // perhaps another disk is at the volume's path
	Grown             Reason = "Grown"             // the disk has another size than the volume
	SignatureLost     Reason = "SignatureLost"     // the volume's file system is no longer on its device
	FilesystemChanged Reason = "FilesystemChanged" // another file system is on the volume's device
	MkfsMissing       Reason = "MkfsMissing"       // the provisioner has no mkfs for the class
	MkfsFailed        Reason = "MkfsFailed"        // no file system could be made; will be tried again
	VolumeInUse       Reason = "VolumeInUse"       // something still uses the volume
	Recycle           Reason = "VolumeUnsupportedReclaimPolicy"
	PhaseFailed       Reason = "PhaseFailed"        // the volume's phase is Failed
	RetainedDirty     Reason = "RetainedDirty"      // kept by policy Retain, with its data
	OtherCluster      Reason = "OtherCluster"       // the disk was published in another cluster
	VolumeVanished    Reason = "VolumeVanished"     // the volume is gone without having been released
	OrphanGracePeriod Reason = "OrphanGracePeriod"  // a released volume is gone; cleaned after the grace period
	OrphanCleanWaits  Reason = "OrphanCleanWaits"   // the grace period is over; the controller has to allow the clean
	CleanFailed       Reason = "CleanFailed"        // will be tried again
	CleanerMissing    Reason = "CleanerMissing"     // the class names a method that this node cannot run
	Interrupted       Reason = "CleanInterrupted"   // the provisioner stopped; the clean resumes after its restart
	JobWaiting        Reason = "CleaningJobWaiting" // there is no cleaning Job yet, or it has not started
	JobRefused        Reason = "CleaningJobRefused" // the controller makes no cleaning Job
)

// Format names the file system on a device, as blkid does. The zero value means that the
// device has none.
type Format struct {
	// Type is TYPE of blkid ("ext4").
	Type string `json:"type,omitempty"`
	UUID string `json:"uuid,omitempty"`
}

func (f Format) String() string {
	if f.Type == "" {
		return "no file system"
	}
	return f.Type + ":" + f.UUID
}

// Superblock is the result of reading the places of a device where file systems have
// their superblocks.
type Superblock struct {
	// Format is the file system with a valid superblock.
	Format Format
	// Other describes what is there when Format cannot be named, in words that follow
	// "holds": a damaged superblock, several file systems, another format.
	Other string
	// Problem is why the device could not be read; nil if it was. With a problem the
	// other fields are empty.
	Problem *Problem
}

// Blank reports whether the device was read, and nothing known is on it.
func (s *Superblock) Blank() bool { return *s == Superblock{} }

// Holds describes what is on the device, in words that follow "holds".
func (s *Superblock) Holds() string {
	if s.Other != "" {
		return s.Other
	}
	return s.Format.String()
}

// LinkFolder is the folder on the node with the volumes' links to their devices. It is on
// devtmpfs, which is empty after a restart.
const LinkFolder = "/dev/stowage/disks"

// MountFolder is the folder on the node, and in the provisioner's pod, with the mounts of volumes
// whose file systems the provisioner mounts, as CLASS/VOLUME. It is outside of kubelet's folder,
// and of /dev and /run, which nodes mount noexec or limit in size.
const MountFolder = "/var/lib/stowage/mounts"

// MountedFolder is the folder in each of these file systems that the volume offers. It exists only
// while the file system is mounted.
const MountedFolder = "data"
