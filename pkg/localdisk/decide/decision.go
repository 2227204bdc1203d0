// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Action is the next thing to do for a slot. After it has succeeded or failed, the slot is
// decided again.
type Action string

// The actions. The provisioner repeats the checks of a destructive action right before it acts.
const (
	// None: nothing to do until something changes.
	None Action = "None"
	// AskNodes: find out whether there is a tombstone of the disk, for RestoreRecord; if the
	// disk has a record already, find out ForeignPV too.
	AskNodes Action = "AskNodes"
	// RestoreRecord: write the record that follows from a tombstone. The provisioner decides it
	// when it has the answer to AskNodes.
	RestoreRecord Action = "RestoreRecord"
	// Inspect: find out Content.
	Inspect Action = "Inspect"
	// ProveBlank: read the whole device in the background, then decide again. Any other
	// decision cancels the read.
	ProveBlank Action = "ProveBlank"
	// MakeFilesystem: write Record.Formatting with Decision.Generation, then make that file system
	// in the background, then write it as Record.Filesystem.
	MakeFilesystem Action = "MakeFilesystem"
	// FindUsers: find out Users.
	FindUsers Action = "FindUsers"
	// Create: write the record as Published, then create the volume, with
	// Decision.Generation.
	Create Action = "Create"
	// WriteRecord: write the record of a volume as Published, with the volume's phase, and
	// update the identity that the volume names if the disk has another one now.
	WriteRecord Action = "WriteRecord"
	// MoveVolume: make the slot that of the volume Displaced, and write its record so.
	MoveVolume Action = "MoveVolume"
	// AddFinalizer: add the finalizer to a volume that lost it.
	AddFinalizer Action = "AddFinalizer"
	// MarkDisk: set the volume's mark to Decision.Mark.
	MarkDisk Action = "MarkDisk"
	// DeleteVolume: delete the volume, with its resourceVersion as precondition.
	DeleteVolume Action = "DeleteVolume"
	// Clean: write the record as Cleaning, with Decision.Generation and the volume if there
	// is one; then clean the disk.
	Clean Action = "Clean"
	// CleanLater: write the record of a released volume whose disk is absent as Cleaning.
	CleanLater Action = "CleanLater"
	// MarkVanished: write the time to the record at which the volume was found to be gone.
	MarkVanished Action = "MarkVanished"
	// MarkRetained: write the record as Retained.
	MarkRetained Action = "MarkRetained"
	// MarkClean: write the record as Clean and this cluster's, with Decision.Generation.
	MarkClean Action = "MarkClean"
	// ReadSuperblock: find out Superblock.
	ReadSuperblock Action = "ReadSuperblock"
	// RecordFilesystem: write Superblock.Format to the record.
	RecordFilesystem Action = "RecordFilesystem"
	// AddLink: point the volume's link to Fact.Device, or mount that at the volume's path.
	AddLink Action = "AddLink"
	// RemoveLink: remove the volume's link, or detach its mount.
	RemoveLink Action = "RemoveLink"
	// RemoveFinalizer: remove the finalizer from the volume.
	RemoveFinalizer Action = "RemoveFinalizer"
)

// ErrStale means that the state which a decision was based on has changed.
var ErrStale = errors.New("the state has changed since the decision")

// Decision is what to do about a slot, and what to report.
type Decision struct {
	Do    Action
	State stowage.EntryState
	// Problem is why the slot is not as desired; nil if it is.
	Problem *disk.Problem
	// Generation is set for MakeFilesystem, Create, Clean and MarkClean.
	Generation int64
	// Mark is set for MarkDisk.
	Mark disk.Mark
}

// Decide decides about a slot: its disk and volume, then the volume's link. first is that of
// Publish.
func Decide(s *Slot, first int64) Decision {
	var d Decision
	if movable(s) {
		return Decision{Do: MoveVolume, State: stowage.EntryPending}
	}
	if ForReclaim(s) {
		d = Reclaim(s)
	} else {
		d = Publish(s, first)
	}
	d = WithLink(d, Link(s))
	if d.Do == None && d.Problem == nil {
		d.Problem = s.Degraded
	}
	return d
}

// movable reports whether the slot becomes that of the volume Displaced. Pods of the volume may use the
// device. A volume without a link is used by the path that it was published with.
func movable(s *Slot) bool {
	v := s.Displaced
	if v == nil || v.Link == "" || s.Volume != nil || s.Fact == nil || s.Fact.Kind != disk.Device || v.Matches(s.Fact.Identity) != disk.Same {
		return false
	}
	return s.Fact.Problem == nil || s.Fact.Problem.Reason == disk.InUse
}

// WithLink adds a decision about the link to a decision about the slot. Removing the link
// precedes everything else; other actions on it follow.
func WithLink(d, link Decision) Decision {
	if link.Do == RemoveLink || d.Do == None {
		d.Do = link.Do
	}
	if d.Problem == nil {
		d.Problem = link.Problem
	}
	return d
}
