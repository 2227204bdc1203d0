// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

// Reason is why a node cannot have a pod. The zero value means that the pod fits.
type Reason struct {
	Code ReasonCode
	// Claim is the name, within the pod's namespace, of the claim that cannot be served,
	// Volume the name of the conflicting volume. Either may be empty. They are for logs
	// and never part of a status.
	Claim, Volume string
	// Held, with NotEnoughSpace: the capacity would suffice if none were held for volumes
	// that are being provisioned.
	Held bool
}

// String returns the text shown to users, empty for Fits. It names no claim: capacity may
// be held for claims of other tenants.
func (r Reason) String() string {
	if r.Code == NotEnoughSpace && r.Held {
		return heldText
	}
	return r.Code.String()
}

const heldText = "node(s) did not have enough free storage while volumes for other claims are being provisioned"

// ReasonCode is the kind of a Reason. Its text is the same for every pod and
// node, because the scheduler counts nodes by text.
type ReasonCode uint8

const (
	// Fits is the absence of a reason.
	Fits ReasonCode = iota
	// NoVolume: a claim that cannot be provisioned found no volume.
	NoVolume
	// NodeConflict: a bound volume cannot be reached from the node.
	NodeConflict
	// NotEnoughSpace: the driver's remaining capacity is too small.
	NotEnoughSpace
	// VolumeMissing: a bound claim's volume does not exist.
	VolumeMissing
	// NodeNotSelected: a volume is being provisioned for another node.
	NodeNotSelected
	// ReservedVolumeMismatch: the volume whose claimRef names the claim does
	// not fit the claim or the node.
	ReservedVolumeMismatch
	// TopologyNotAllowed: the class does not allow provisioning for the node.
	TopologyNotAllowed
	// DiskMissing: the disk of a claim's volume is not at its path.
	DiskMissing
	// DiskReplaced: another disk is at its path.
	DiskReplaced
	// DiskFailing: the volume's disk is present and failing.
	DiskFailing
	// DiskUnproven: it is not proven that the disk is the volume's, or has its data.
	DiskUnproven

	reasonCodes // their number
)

// reasonTexts uses the stock scheduler's texts where the meaning is the same, so that
// existing alerts keep working.
var reasonTexts = [reasonCodes]string{
	Fits:                   "",
	NoVolume:               "node(s) didn't find available persistent volumes to bind",
	NodeConflict:           "node(s) didn't match PersistentVolume's node affinity",
	NotEnoughSpace:         "node(s) did not have enough free storage",
	VolumeMissing:          "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
	NodeNotSelected:        "node(s) were not the node selected for provisioning",
	ReservedVolumeMismatch: "node(s) didn't fit the persistent volume reserved for a claim",
	TopologyNotAllowed:     "node(s) didn't match the storage class's allowed topologies",
	DiskMissing:            "node(s) unavailable because the disk of a claim's persistent volume is missing",
	DiskReplaced:           "node(s) unavailable because the disk of a claim's persistent volume was replaced by another",
	DiskFailing:            "node(s) unavailable because the disk of a claim's persistent volume is failing",
	DiskUnproven:           "node(s) unavailable because the disk of a claim's persistent volume is not proven to be the same",
}

// String returns the text shown to users, empty for Fits.
func (c ReasonCode) String() string {
	if c >= reasonCodes {
		return "node(s) were rejected for an unknown reason"
	}
	return reasonTexts[c]
}
