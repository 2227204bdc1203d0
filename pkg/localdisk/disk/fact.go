// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"slices"
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

// Continue returns the attachment as observed by one process, which last saw the disk with
// attachment last, or not at all if that is empty. A mount ID that may be reused is valid
// only while the process keeps seeing it, from the time at which it first did.
func (a Attachment) Continue(last Attachment, now time.Time) Attachment {
	if !strings.Contains(string(a), "/mount-id:") {
		return a
	}
	if strings.HasPrefix(string(last), string(a)+"/") {
		return last
	}
	return Attachment(fmt.Sprintf("%s/%d", a, now.UnixNano()))
}

// Kind is what lies at a path.
type Kind string

// The kinds.
const (
	Mount     Kind = "Mount"     // a mounted file system
	Device    Kind = "Device"    // a block device, or a symlink to one
	Directory Kind = "Directory" // a plain directory that the class asks for by pattern
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
	// HostPath is the path on the node, which a volume names; Path is where the
	// agent finds the same. Neither has symlinks resolved.
	HostPath, Path string
	// Device is the node of a block device, symlinks resolved, as the agent finds
	// it ("/dev/sdb1"); empty for other kinds.
	Device string
	Kind   Kind
	// FilesystemType is that of a Mount or of what a Directory lies on ("ext4").
	FilesystemType string
	Identity       Identity
	// Place is equal for two paths that lead to the same bytes: "dev:<major>:<minor>"
	// or "fs:<major>:<minor>:<root>".
	Place string
	// Overlaps are the Places that share bytes with this one without being it: the
	// disk of a partition, the partitions of a disk, the device of a mount.
	Overlaps []string
	// Attachment names an uninterrupted presence of the disk on the node. It differs after
	// the disk was detached or unmounted, and after a restart of the node; empty if that
	// cannot be found out.
	Attachment Attachment
	// Bytes is the size of the device, or of the file system.
	Bytes int64
	// Problem is why this can be no volume; nil for a good candidate. With a
	// problem, whatever else could not be found out is empty.
	Problem *Problem
}

// Mounted reports whether the host has a file system of a device mounted, or of a device
// that shares bytes with it.
func (f *Fact) Mounted() bool {
	return slices.ContainsFunc(f.Overlaps, func(place string) bool { return strings.HasPrefix(place, "fs:") })
}

// SharesSpace reports whether the size of the file system changes with what others write: that
// of a ZFS dataset is what it holds and what its pool has left.
func (f *Fact) SharesSpace() bool { return f.FilesystemType == "zfs" }

// Problem is why something is not done, as users are told.
type Problem struct {
	Reason Reason
	// Message says what was found and what to do about it, in a sentence.
	Message string
}

// Error makes a problem an error.
func (p *Problem) Error() string { return fmt.Sprintf("%s: %s", p.Reason, p.Message) }

// Problemf makes a problem.
func Problemf(reason Reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Reason is a word for users and for their alerts: it appears in reports, events
// and metrics, and stays the same from release to release.
type Reason string

// Why a candidate is not published.
const (
	SpecialFile           Reason = "SpecialFile"           // neither directory nor block device
	NotMountPoint         Reason = "NotMountPoint"         // a plain directory that no pattern asks for
	MountMissing          Reason = "MountMissing"          // something is to be mounted here, and is not
	WrongVolumeMode       Reason = "WrongVolumeMode"       // a file system, and the class says Block
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
	Unreadable            Reason = "Unreadable"            // could not be looked at, for a reason that need not be the disk's
	Empty                 Reason = "NoCapacity"            // has no bytes
	NotEmpty              Reason = "NotEmpty"              // holds data that no record knows of
	ProvingBlank          Reason = "ProvingBlank"          // has to be blank, and is still being read
	ForeignVolume         Reason = "ForeignVolume"         // a volume that is not ours has the path
	OtherNodesVolume      Reason = "OtherNodesVolume"      // a volume of another node has the disk
	NotConfigured         Reason = "NotConfigured"         // the class or the name is not configured any more
	BadRecord             Reason = "BadRecord"             // what the node remembers cannot be read
	ClassMissing          Reason = "StorageClassMissing"   // there is no such StorageClass
	BadClass              Reason = "StorageClassInvalid"   // the StorageClass asks for what local volumes cannot do
)

// Why a volume is not as it should be, or not cleaned.
const (
	Missing           Reason = "Missing"           // nothing is at the volume's path
	Replaced          Reason = "Replaced"          // another disk is at the volume's path
	IdentityUnproven  Reason = "IdentityUnproven"  // perhaps another disk is at the volume's path
	Grown             Reason = "Grown"             // the disk has another size than the volume
	SignatureLost     Reason = "SignatureLost"     // the volume's file system is not on its device any more
	FilesystemChanged Reason = "FilesystemChanged" // another file system is on the volume's device
	VolumeInUse       Reason = "VolumeInUse"       // something still uses the volume
	Recycle           Reason = "VolumeUnsupportedReclaimPolicy"
	PhaseFailed       Reason = "PhaseFailed"        // the volume's phase is Failed
	RetainedDirty     Reason = "RetainedDirty"      // kept by policy Retain, with its data
	OtherCluster      Reason = "OtherCluster"       // the disk was published in another cluster
	VolumeVanished    Reason = "VolumeVanished"     // the volume is gone without having been released
	OrphanGracePeriod Reason = "OrphanGracePeriod"  // a released volume is gone; cleaned after the grace period
	OrphanCleanWaits  Reason = "OrphanCleanWaits"   // the grace period is over; the controller has to allow the clean
	CleanFailed       Reason = "CleanFailed"        // will be tried again
	CleanerNotAllowed Reason = "CleanerMissing"     // the class names a method that this node cannot run
	Interrupted       Reason = "CleanInterrupted"   // the agent stopped; resumed when it is back
	JobWaiting        Reason = "CleaningJobWaiting" // there is no cleaning Job yet, or it does not begin
	JobRefused        Reason = "CleaningJobRefused" // the controller makes no cleaning Job
)
