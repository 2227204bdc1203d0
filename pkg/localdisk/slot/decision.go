// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import "stowage.dev/stowage/pkg/localdisk/disk"

// Action is the one thing to do next for a slot. After it is done, or has failed,
// the slot is decided about again.
type Action string

// The actions. Those who carry them out check once more, right before, whatever
// the action destroys.
const (
	// None: there is nothing to do until something changes.
	None Action = "None"
	// AskNodes: find out whether a report has a tombstone of the disk, and write a
	// record of what that says; if the disk has a record already, find out ForeignPV too.
	AskNodes Action = "AskNodes"
	// Inspect: find out Content.
	Inspect Action = "Inspect"
	// ProveBlank: read the whole device in the background. The slot is decided about again
	// when that is done; any other decision ends it.
	ProveBlank Action = "ProveBlank"
	// FindUsers: find out Users.
	FindUsers Action = "FindUsers"
	// Create: write the record as Published, then create the volume, with
	// Decision.Generation.
	Create Action = "Create"
	// WriteRecord: write a record as Published, with the volume's phase, for a volume whose
	// disk has none that fits, and the disk's identity to the volume if it names none or another that stands for it.
	WriteRecord Action = "WriteRecord"
	// AddFinalizer: add our finalizer to a volume that lost it.
	AddFinalizer Action = "AddFinalizer"
	// MarkDisk: have the volume say Decision.Mark of its disk.
	MarkDisk Action = "MarkDisk"
	// Remove: delete the volume, if it is still exactly the one that was decided about.
	Remove Action = "Remove"
	// Wipe: write the record as Cleaning, with Decision.Generation, and without a
	// volume if there is none any more; then clean.
	Wipe Action = "Wipe"
	// CleanLater: write the record of a released volume, whose disk is not here, as Cleaning.
	CleanLater Action = "CleanLater"
	// Miss: write to the record that the volume is gone.
	Miss Action = "Miss"
	// MarkRetained: write the record as Retained.
	MarkRetained Action = "MarkRetained"
	// MarkClean: write the record as Clean and this cluster's, with Decision.Generation.
	MarkClean Action = "MarkClean"
	// ReadSuperblock: find out Superblock.
	ReadSuperblock Action = "ReadSuperblock"
	// RecordFilesystem: write Superblock.Format to the record.
	RecordFilesystem Action = "RecordFilesystem"
	// AddLink: make the volume's link lead to Fact.Device.
	AddLink Action = "AddLink"
	// RemoveLink: remove the volume's link.
	RemoveLink Action = "RemoveLink"
	// RemoveFinalizer: remove our finalizer from the volume.
	RemoveFinalizer Action = "RemoveFinalizer"
)

// State is what users are told of a slot: status.entries[].state of a
// LocalDiskReport.
type State string

// The states.
const (
	Pending   State = "Pending"   // about to be published
	Available State = "Available" // the volume is free
	Bound     State = "Bound"     // the volume has a claim
	Released  State = "Released"  // the claim is gone
	Cleaning  State = "Cleaning"  // being cleaned, or about to be
	Skipped   State = "Skipped"   // no volume, for the reason given
	Missing   State = "Missing"   // there is a volume, and no disk
	Replaced  State = "Replaced"  // there is a volume, and another disk
	Unproven  State = "Unproven"  // there is a volume, and perhaps another disk
	Retained  State = "Retained"  // kept, with its data, for the reason given
	Failing   State = "Failing"   // there is a volume, and its disk is failing
	Failed    State = "Failed"    // the volume's phase is Failed
)

// Decision is what to do about a slot, and what to tell.
type Decision struct {
	Do    Action
	State State
	// Problem is why the slot is not as a user would want it; nil if it is.
	Problem *disk.Problem
	// Generation goes with Create, Wipe and Absolve.
	Generation int64
	// Mark goes with MarkDisk.
	Mark disk.Mark
}
