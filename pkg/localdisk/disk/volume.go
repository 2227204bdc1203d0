// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import "strings"

// Phase is a volume's status.phase.
type Phase string

// The phases. A volume that was just created has none, or Pending.
const (
	PhasePending   Phase = "Pending"
	PhaseAvailable Phase = "Available"
	PhaseBound     Phase = "Bound"
	PhaseReleased  Phase = "Released"
	PhaseOfFailed  Phase = "Failed"
)

// Volume is a PersistentVolume of this node's provisioner, as the rules see it.
type Volume struct {
	Name, UID, ResourceVersion string
	Key                        Key
	// HostPath is the path of the volume's slot on the node. It is spec.local.path too,
	// but for a volume that has a Link.
	HostPath string
	// Link is spec.local.path of a volume whose path the provisioner lets exist only while the
	// device may be used: a link (localpv.LinkPath), or a folder in a file system that the
	// provisioner mounts (localpv.MountPath); empty for others.
	Link string
	// FSType is the file system of a device of mode Filesystem, which kubelet makes when it is
	// blank. MountOptions are spec.mountOptions.
	FSType       string
	MountOptions []string
	Mode         Mode
	// Bytes is the volume's capacity; DiskBytes the size of the disk that it was published
	// with, 0 if the volume does not state it (adopted).
	Bytes, DiskBytes int64
	// Identity is that of the disk the volume was published with; empty if the volume does not
	// state it.
	Identity   Identity
	Generation int64
	Phase      Phase
	Policy     Policy
	// Claimed reports whether the volume has a claimRef; ClaimUID is its UID, empty if it has none.
	Claimed  bool
	ClaimUID string
	// Deleting reports whether the volume has a deletionTimestamp, Finalized whether it has the
	// provisioner's finalizer.
	Deleting, Finalized bool
	// Accepted is an identity that an administrator confirmed to be the same disk.
	Accepted Identity
	// AcceptedFormat is a file system that an administrator has accepted as the volume's:
	// Format.String.
	AcceptedFormat string
	Mark           Mark
}

// Mounted reports whether the provisioner mounts the volume's file system.
func (v *Volume) Mounted() bool { return strings.HasPrefix(v.Link, MountFolder+"/") }

// Mark is an annotation of a volume with a claim on the state of its disk, so that no pod of
// the claim is scheduled to where another disk, a failing one, or none would be mounted. Empty
// means that nothing is wrong.
type Mark string

// The marks.
const (
	Unmarked     Mark = ""
	MarkMissing  Mark = "Missing"  // nothing is at the volume's path
	MarkReplaced Mark = "Replaced" // another disk is
	MarkFailing  Mark = "Failing"  // the volume's disk is, and is failing
	MarkUnproven Mark = "Unproven" // the disk at the path is not proven to be the volume's, or to have its data
)

// Binding reports whether a claim that was never bound to the volume may become so, even while
// the volume is being deleted: its binder has already written claimRef.
func (v *Volume) Binding() bool {
	return v.Claimed && v.Phase != PhaseBound && v.Phase != PhaseReleased && v.Phase != PhaseOfFailed
}

// Seen is the phase that a record keeps of the volume: Available, Bound, Released or Failed. A
// Failed volume that is being deleted counts as Released: deleting it gives up its data.
func (v *Volume) Seen() Phase {
	switch {
	case v.Phase == PhaseBound, v.Phase == PhaseReleased:
		return v.Phase
	case v.Phase == PhaseOfFailed && v.Deleting:
		return PhaseReleased
	case v.Phase == PhaseOfFailed:
		return v.Phase
	default:
		return PhaseAvailable
	}
}
