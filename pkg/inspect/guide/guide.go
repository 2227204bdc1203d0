// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guide finds the section of docs/troubleshooting.md that explains a reason, a state or a condition.
// A test of hack/docs compares it with the page, and the page with the code.
package guide

import (
	"slices"
	"strings"
)

// base is where the pages are published, as in the runbook_url of alerts.
const base = "https://stowage.dev/docs/"

// Section is a section of docs/troubleshooting.md, by its heading.
type Section string

// The sections whose tables All has.
const (
	States            Section = "States"                       // states of the entries of a LocalDiskReport
	Reasons           Section = "Reasons"                      // reasons of these entries
	CleaningJobs      Section = "Cleaning Jobs"                // states and reasons of cleaning Jobs
	ProvisionerEvents Section = "Events of the provisioner"    // events of the local provisioner
	ControllerEvents  Section = "Events of the controller"     // events of the controller about lost nodes and disks
	BoundNow          Section = "Claims that are bound now"    // events on claims that are bound without a pod
	PavProvisioners   Section = "A PavProvisioner"             // reasons of a PavProvisioner
	PavConditions     Section = "Conditions"                   // types of conditions of the kinds of PaV
	PavVolumes        Section = "A volume of a PavProvisioner" // reasons and phases of a PavVolume
	PavStagings       Section = "A volume on a node"           // reasons and phases of a PavStaging
)

// Sections about what has no reason.
const (
	Pods        Section = "A pod is not placed"                     // pods that are not placed
	Disks       Section = "A disk is no volume"                     // disks without a volume, and volumes that are not cleaned
	Terminating Section = "A volume does not go"                    // volumes that stay Terminating
	PavPods     Section = "A pod with a volume of a PavProvisioner" // events of the kubelet and the scheduler about such pods
	Parts       Section = "A part does not run"                     // components that do not run
	Tombstones  Section = "Classes and tombstones"                  // classes that are not ready, and tombstones
)

// Link returns the address of the section.
func (s Section) Link() string { return base + "troubleshooting#" + s.Anchor() }

// Page returns the address of a section of another page, by its anchor.
func Page(name, anchor string) string { return base + name + "#" + anchor }

// Anchor returns the section's anchor in the page.
func (s Section) Anchor() string { return strings.ReplaceAll(strings.ToLower(string(s)), " ", "-") }

// Link returns the address of the first of the sections that explains a reason; empty if none does.
func Link(reason string, sections ...Section) string {
	for _, s := range sections {
		if slices.Contains(reasons[s], reason) {
			return s.Link()
		}
	}
	return ""
}

// All returns what each section explains, sorted.
func All() map[Section][]string {
	all := make(map[Section][]string, len(reasons))
	for s, names := range reasons {
		all[s] = slices.Clone(names)
	}
	return all
}

// WithoutReasons returns the other sections.
func WithoutReasons() []Section {
	return []Section{Pods, Disks, Terminating, PavPods, Parts, Tombstones}
}

// reasons are sorted.
var reasons = map[Section][]string{
	States: {
		"Available", "Bound", "Cleaning", "Failed", "Failing", "Missing", "Pending", "Released", "Replaced",
		"Retained", "Skipped", "Unproven",
	},
	Reasons: {
		"BadRecord", "CannotAddFinalizer", "CannotAddLink", "CannotAskNodes", "CannotClean", "CannotCleanLater",
		"CannotCreate", "CannotDeleteVolume", "CannotInspect", "CannotMakeFilesystem", "CannotMarkClean", "CannotMarkDisk",
		"CannotMarkRetained", "CannotMarkVanished", "CannotMoveVolume", "CannotNone", "CannotProveBlank", "CannotReadSuperblock",
		"CannotRecordFilesystem", "CannotRemoveFinalizer", "CannotRemoveLink", "CannotRestoreRecord",
		"CannotWriteRecord", "CleanFailed", "CleanInterrupted", "CleanerMissing", "CleaningJobRefused",
		"CleaningJobWaiting", "DeviceReadOnly", "DiscoveryDirectory", "DiskErrors", "DriveFailing", "DriveWarning", "FilesystemChanged", "FilesystemError",
		"ForeignVolume", "Grown", "Hung", "IOError", "IdentityUnproven", "InUse", "Missing", "MkfsFailed", "MkfsMissing", "MountMissing", "Networked",
		"NoCapacity", "NoHardware", "NotConfigured", "NotEmpty", "NotMountPoint", "OrphanCleanWaits", "OrphanGracePeriod", "OtherCluster",
		"OtherNodesVolume", "OutsideDirectory", "Partitioned", "PhaseFailed", "ProvingBlank", "ReadOnly", "Removable", "Replaced",
		"RetainedDirty", "SameBytes", "SeveralClasses", "SharedIdentity", "SignatureLost", "SpecialFile", "StorageClassInvalid", "StorageClassMissing",
		"TimedOut", "Unidentified", "Unreadable", "UnsupportedFilesystem", "VolumeInUse", "VolumeUnsupportedReclaimPolicy",
		"VolumeVanished", "WriteLost", "WrongVolumeMode",
	},
	CleaningJobs: {
		"CannotCreateJob", "ConfigurationInvalid", "EarlierAttempt", "Failed", "JobBeingDeleted", "JobDeleted",
		"JobFailed", "JobsNotConfigured", "MethodNeedsProvisioner", "NoImage", "NoResult", "NoSuchVolume",
		"Refused", "RequestMismatch", "Running", "Succeeded", "VolumeNotReleased", "Waiting",
	},
	ProvisionerEvents: {
		"ConfigurationRejected", "VolumeCleaned", "VolumeDelete", "VolumeFailedDelete", "VolumePublished",
	},
	ControllerEvents: {
		"ClaimNotRecreatable", "ClaimReleased", "DuplicateIdentity", "InvalidNodeLoss", "ReleaseThrottled",
		"ReleasingClaim", "VolumeLost", "VolumeRemoved", "WouldReleaseClaim", "WouldRemoveVolume",
	},
	BoundNow: {
		"BindingClaimFailed", "InvalidBindNow", "NoCapacityForClaim", "NoNodeForClaim", "NoVolumeForClaim",
		"NodeRejectedByProvisioner", "ReservedVolumeUnsuitable",
	},
	PavProvisioners: {
		"Accepted", "CSIDriverNotOwned", "Deleting", "InvalidSpec", "NodesWithoutCapacity", "Published",
		"RevisionNotOwned",
	},
	PavConditions: {
		"Accepted", "CapacityPublished", "Deletable", "NodeExists", "Provisioned", "Staged", "Unstageable",
	},
	PavVolumes: {
		"ClaimGone", "Creating", "CreationFailed", "Deleted", "Deleting", "DeletionFailed", "ExpansionNotSupported",
		"HandleInUse", "NameInUse", "NodeFound", "NodeLabelMissing", "NodeNotFound", "NodeUnsuitable",
		"NotSupported", "Pending", "PersistentVolumeMissing", "PersistentVolumeNotOwned",
		"PersistentVolumeNotReleased", "PodNotRunning", "PodRemains", "Provisioned", "ProvisionerNotAccepted",
		"ProvisioningSucceeded", "Publishing", "Retained", "Reverting", "RevisionMissing", "SelectedNodeChanged",
		"StorageClassUnsuitable", "Validating", "ValidationFailed", "VolumeAdopted", "VolumeNotAdoptable",
		"VolumeStaged",
	},
	PavStagings: {
		"Clearing", "EndedWithoutUnstaging", "HandleShared", "NoPodOnNode", "NodeNotCleared", "NodeRebooted",
		"NotRequested", "NotSupported", "Pending", "PersistentVolumeNotBound", "PersistentVolumeNotFound",
		"PodNotRunning", "PodRemains", "PriorityRefused", "ProvisionerNotAccepted", "Staged", "StagedOnOtherNode",
		"Staging", "StagingFailed", "Unstaging", "UnstagingFailed", "Validating", "ValidationFailed",
		"VolumeStaged",
	},
}
