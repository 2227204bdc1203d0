// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// Step is what to do next. After it succeeded or failed, the staging is decided about again.
type Step interface{ isStep() }

// The steps.
type (
	// None does nothing.
	None struct{}
	// Read reads the facts from the API server, for another decision.
	Read struct{}
	// Wait ends when an object changes, or after For; 0 without a limit.
	Wait struct {
		// Event is why; the zero value if that is not worth a report.
		Event
		For time.Duration
		// Keep: what was reported before still holds.
		Keep bool
	}
	// AddFinalizer adds the finalizer to the PavStaging.
	AddFinalizer struct{}
	// Begin writes copies of the claim, the PersistentVolume and the node to the status, too. It
	// is done only if no other node has a volume that one node can use.
	Begin struct{ Status stowage.PavStagingStatus }
	// Record writes the status, and reports the event.
	Record struct {
		Status stowage.PavStagingStatus
		Event  Event
	}
	// CreatePod creates the helper pod that the status has.
	CreatePod struct{}
	// DeletePod deletes the helper pod of that UID.
	DeletePod struct{ UID types.UID }
	// ReleasePod removes the finalizer from the helper pod of that UID.
	ReleasePod struct{ UID types.UID }
	// Delete deletes the PavStaging: its node does not do it any more. It reports the event.
	Delete struct{ Event Event }
	// Release removes the finalizer of the PavStaging.
	Release struct{}
)

func (None) isStep()         {}
func (Read) isStep()         {}
func (Wait) isStep()         {}
func (AddFinalizer) isStep() {}
func (Begin) isStep()        {}
func (Record) isStep()       {}
func (CreatePod) isStep()    {}
func (DeletePod) isStep()    {}
func (ReleasePod) isStep()   {}
func (Delete) isStep()       {}
func (Release) isStep()      {}

// Reason is a stable machine-readable word for why a volume is not staged or unstaged.
type Reason string

// The reasons.
const (
	NotAccepted     Reason = "ProvisionerNotAccepted"
	NotFound        Reason = "PersistentVolumeNotFound"
	HandleShared    Reason = "HandleShared"
	NotBound        Reason = "PersistentVolumeNotBound"
	Unused          Reason = "NoPodOnNode"
	StagedElsewhere Reason = "StagedOnOtherNode"
	NotSupported    Reason = "NotSupported"
	Invalid         Reason = "ValidationFailed"
	StagingFailed   Reason = "StagingFailed"
	Rebooted        Reason = "NodeRebooted"
	Unrequested     Reason = "NotRequested"
	Succeeded       Reason = "VolumeStaged"

	UnstagingFailed Reason = "UnstagingFailed"
	NotCleared      Reason = "NodeNotCleared"
	Abandoned       Reason = "EndedWithoutUnstaging"

	PodNotRunning Reason = "PodNotRunning" // a helper pod has a problem that may end
	PodRemains    Reason = "PodRemains"    // a helper pod does not end
	NoPriority    Reason = "PriorityRefused"
)

// Event is reported to users on the claim; on the PavStaging if there is no claim. The zero value
// reports nothing.
type Event struct {
	Reason  Reason
	Message string
	// Normal: it is not a problem.
	Normal bool
	// ConditionOnly: the conditions have it, and no event, since it was reported before or is usual.
	ConditionOnly bool
}
