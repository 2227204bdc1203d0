// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides the next write for a claim or a volume, as the PV controller of
// kube-controller-manager would do it, with the differences in docs/design/pv-binder.md.
// DecideClaim and DecideVolume take the facts of one object and return one action; package
// pvbinder reads the facts, takes the action and decides again, until there is nothing to do.
package rules

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Action is what to do next.
type Action string

// The actions. After a write or a read the object is decided about again.
const (
	None              Action = "None"
	WriteVolume       Action = "WriteVolume"       // update Decision.Volume
	WriteVolumeStatus Action = "WriteVolumeStatus" // update the status of Decision.Volume
	WriteClaim        Action = "WriteClaim"        // update Decision.Claim
	WriteClaimStatus  Action = "WriteClaimStatus"  // update the status of Decision.Claim
	ReadVolume        Action = "ReadVolume"        // read the claim's volume from the API server
	ReadClaim         Action = "ReadClaim"         // read the volume's claim from the API server
	ReadClass         Action = "ReadClass"         // read the claim's class from the API server
	Match             Action = "Match"             // choose a free volume for the claim
	DecideOnClaim     Action = "DecideOnClaim"     // the claim of Decision.Claim has the next write
)

// Decision is the next action.
type Decision struct {
	Do Action
	// Volume and Claim are the desired objects of a write, on the resourceVersion that was decided
	// about, or the object that an action is about.
	Volume *v1.PersistentVolume
	Claim  *v1.PersistentVolumeClaim
	// Events are recorded after the action, unless they are the last ones of that object.
	Events []Event
}

// Event is an event about the claim or the volume.
type Event struct {
	// OnVolume: it is about the volume, else about the claim.
	OnVolume bool
	Warning  bool
	Reason   string
	Note     string
}

// ReasonOtherPVController is the reason of an event about another PV controller.
const ReasonOtherPVController = "OtherPVController"

// Reasons of events: those of the PV controller, so that existing alerts keep working.
const (
	ReasonClaimLost            = "ClaimLost"
	ReasonClaimMisbound        = "ClaimMisbound"
	ReasonFailedBinding        = "FailedBinding"
	ReasonVolumeMismatch       = "VolumeMismatch"
	ReasonVolumeFailedRecycle  = "VolumeFailedRecycle"
	ReasonVolumeFailedDelete   = "VolumeFailedDelete"
	ReasonExternalProvisioning = "ExternalProvisioning"
	ReasonProvisioningFailed   = "ProvisioningFailed"
	ReasonWaitForFirstConsumer = "WaitForFirstConsumer"
	ReasonWaitForPodScheduled  = "WaitForPodScheduled"
)

// ClaimFacts is what DecideClaim reads. Objects are shared and never changed.
type ClaimFacts struct {
	Claim *v1.PersistentVolumeClaim
	// Volume is the one that spec.volumeName names, nil if it was not found. VolumeRead: that is the
	// API server's answer, not a cache's.
	Volume     *v1.PersistentVolume
	VolumeRead bool
	// Referring are the volumes whose claimRef names the claim; its UID may be missing.
	Referring []*v1.PersistentVolume
	// Class is the claim's, nil if the claim names none or it was not found. ClassRead: that is the
	// API server's answer.
	Class     *storagev1.StorageClass
	ClassRead bool
	// Default is the default class of the cluster, nil for none.
	Default *storagev1.StorageClass
	// Matched: a free volume was searched for; Match is the result, nil for none.
	Matched bool
	Match   *v1.PersistentVolume
	// Pods are the names of the pods that use the claim and have no node.
	Pods []string
	// Drivers are the CSI drivers that replace in-tree plugins, by the name of the plugin.
	Drivers map[string]string
}

// VolumeFacts is what DecideVolume reads. Objects are shared and never changed.
type VolumeFacts struct {
	Volume *v1.PersistentVolume
	// Claim is the one that claimRef names, whatever its UID; nil if it was not found. ClaimRead:
	// that is the API server's answer, not a cache's.
	Claim     *v1.PersistentVolumeClaim
	ClaimRead bool
	// Bound is a claim whose binding to the volume is complete, nil for none.
	Bound *v1.PersistentVolumeClaim
	// Drivers are the CSI drivers that replace in-tree plugins, by the name of the plugin.
	Drivers map[string]string
}
