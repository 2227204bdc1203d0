// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

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

// Volume is a PersistentVolume of this node's agent, as planners see it.
type Volume struct {
	Name, UID, ResourceVersion string
	Key                        Key
	// HostPath is the path of the volume's slot on the node. It is spec.local.path too,
	// but for a volume that has a Link.
	HostPath string
	// Link is spec.local.path of a volume whose device kubelet finds by a link of ours
	// (LinkPath); empty for others.
	Link string
	// FSType is the file system that kubelet makes on a blank device of mode Filesystem.
	FSType string
	Mode   Mode
	// Bytes is the capacity that the volume states; DiskBytes the size of the disk
	// that it was published with (0 when the volume does not say: one that was
	// adopted).
	Bytes, DiskBytes int64
	// Identity is that of the disk the volume was published with; empty when the
	// volume does not say.
	Identity   Identity
	Generation int64
	Phase      Phase
	Policy     Policy
	// Claimed says that the volume names a claim (spec.claimRef).
	Claimed bool
	// Deleting says that the volume has a deletionTimestamp, Finalized that it
	// still has our finalizer.
	Deleting, Finalized bool
	// Accepted is an identity that an administrator has said to be the same disk.
	Accepted Identity
	// AcceptedFormat is a file system that an administrator has accepted as the volume's:
	// Format.String.
	AcceptedFormat string
	// Mark is what the volume says of its disk.
	Mark Mark
}

// Mark is what a volume that has a claim says of its disk, so that no pod of the claim
// is placed where it would meet another disk, a failing one, or none. Empty says nothing against it.
type Mark string

// The marks.
const (
	Unmarked     Mark = ""
	MarkMissing  Mark = "Missing"  // nothing is at the volume's path
	MarkReplaced Mark = "Replaced" // another disk is
	MarkFailing  Mark = "Failing"  // the volume's disk is, and is failing
	MarkUnproven Mark = "Unproven" // nothing proves that the disk there is the volume's, or has its data
)

// Binding says whether a claim may become bound to the volume without having been so,
// even while the volume is being deleted: who binds has written the claim down already.
func (v *Volume) Binding() bool {
	return v.Claimed && v.Phase != PhaseBound && v.Phase != PhaseReleased && v.Phase != PhaseOfFailed
}

// Seen is the phase that a record keeps of the volume: Available, Bound, Released or
// Failed. A Failed volume that is being deleted counts as Released: whoever deleted it
// gave up its data.
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

// Matches compares the disk that is at the volume's path with the one that the
// volume was published with, an administrator's word included.
func (v *Volume) Matches(found Identity) Match {
	if found != "" && v.Accepted == found {
		return Same
	}
	return v.Identity.Compare(found)
}
