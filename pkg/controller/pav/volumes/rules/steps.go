// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// Step is what to do next. After it succeeded or failed, the claim is decided about again.
type Step interface{ isStep() }

// The steps.
type (
	// None does nothing: the claim needs nothing, or is not this controller's.
	None struct{}
	// Read reads claim, PavVolume and PersistentVolume from the API server, for another decision.
	Read struct{}
	// Refuse reports why no volume is made for the claim, which has no PavVolume.
	Refuse struct{ Event }
	// Wait ends when an object changes, or after For; 0 without a limit.
	Wait struct {
		// Event is why; the zero value if that is not worth a report.
		Event
		For time.Duration
		// Keep: what was reported before still holds.
		Keep bool
	}
	// Begin writes what an attempt makes the volume from into the spec of the PavVolume that was
	// read, or of a new one, and then its status.
	Begin struct {
		Claim *corev1.PersistentVolumeClaim
		Class *storagev1.StorageClass
		// Revision is that of the provisioner, Node the selected node.
		Revision, Node string
		Status         stowage.PavVolumeStatus
		Event          Event
	}
	// Record writes the status of the PavVolume that was read, and reports the event.
	Record struct {
		Status stowage.PavVolumeStatus
		Event  Event
	}
	// CreatePod creates the helper pod that the status has.
	CreatePod struct{}
	// DeletePod deletes the helper pod of that UID.
	DeletePod struct{ UID types.UID }
	// ReleasePod removes the finalizer from the helper pod of that UID.
	ReleasePod struct{ UID types.UID }
	// CreatePV creates the PersistentVolume.
	CreatePV struct{}
	// AddPVFinalizer adds the finalizer to the PersistentVolume that was read.
	AddPVFinalizer struct{}
	// RemovePVFinalizer removes the finalizer from the PersistentVolume that was read.
	RemovePVFinalizer struct{}
	// DeletePV deletes the PersistentVolume of that UID.
	DeletePV struct{ UID types.UID }
	// ReleaseNode removes the selected node from the claim that was read.
	ReleaseNode struct{}
	// DeleteVolume deletes the PavVolume that was read.
	DeleteVolume struct{}
	// ReleaseVolume removes the finalizer from the PavVolume that was read.
	ReleaseVolume struct{}
)

func (None) isStep()              {}
func (Read) isStep()              {}
func (Refuse) isStep()            {}
func (Wait) isStep()              {}
func (Begin) isStep()             {}
func (Record) isStep()            {}
func (CreatePod) isStep()         {}
func (DeletePod) isStep()         {}
func (ReleasePod) isStep()        {}
func (CreatePV) isStep()          {}
func (AddPVFinalizer) isStep()    {}
func (RemovePVFinalizer) isStep() {}
func (DeletePV) isStep()          {}
func (ReleaseNode) isStep()       {}
func (DeleteVolume) isStep()      {}
func (ReleaseVolume) isStep()     {}

// Reason is a stable machine-readable word for why a volume is not made or deleted.
type Reason string

// The reasons.
const (
	NotAccepted      Reason = "ProvisionerNotAccepted"
	ClassUnsuitable  Reason = "StorageClassUnsuitable"
	NotSupported     Reason = "NotSupported"
	NameInUse        Reason = "NameInUse"
	Invalid          Reason = "ValidationFailed"
	CreationFailed   Reason = "CreationFailed"
	NodeUnsuitable   Reason = "NodeUnsuitable" // another node is to be selected
	NodeChanged      Reason = "SelectedNodeChanged"
	NodeLabelMissing Reason = "NodeLabelMissing"
	Abandoned        Reason = "ClaimGone"
	Succeeded        Reason = "ProvisioningSucceeded"
	Adopted          Reason = "VolumeAdopted"
	NotAdoptable     Reason = "VolumeNotAdoptable"
	NoExpansion      Reason = "ExpansionNotSupported"

	DeletionFailed Reason = "DeletionFailed"
	Staged         Reason = "VolumeStaged"
	NotReleased    Reason = "PersistentVolumeNotReleased"
	Kept           Reason = "Retained"

	PodNotRunning   Reason = "PodNotRunning" // a helper pod has a problem that may end
	PodRemains      Reason = "PodRemains"    // a helper pod does not end
	HandleInUse     Reason = "HandleInUse"
	NodeGone        Reason = "NodeNotFound"
	RevisionMissing Reason = "RevisionMissing"
	Missing         Reason = "PersistentVolumeMissing"
	NotOwned        Reason = "PersistentVolumeNotOwned"
)

// Event is reported to users on the claim; on the PersistentVolume if there is no claim, and on
// the PavVolume if there is neither. The zero value reports nothing.
type Event struct {
	Reason  Reason
	Message string
	// Normal: it is not a problem.
	Normal bool
	// ConditionOnly: the conditions have it, and no event, since it was reported before or is usual.
	ConditionOnly bool
}
