// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Facts are what is known about an owned volume. Decide does not change them.
type Facts struct {
	Now    time.Time
	Volume disk.Volume
	// Provisioned: a PavProvisioner made the volume on the node. No provisioner reports it, and
	// nothing cleans what is left of it on a node that returns.
	Provisioned bool
	// Node is the state of the volume's node.
	Node Node
	// Disk is the last report of the node's provisioner about the volume's disk.
	Disk DiskState
	// ProvisionerSince is since when the provisioner's pod on the node is Ready, to the second;
	// zero if it is not Ready. The last report of a provisioner that does not run may be out of
	// date.
	ProvisionerSince time.Time
	// ReportedAt is when that provisioner last wrote its report; zero if it never did.
	ReportedAt time.Time
	// Mark is the recorded loss; nil if none is recorded.
	Mark *Mark
	// Release is the release that was begun; nil if none was.
	Release *BegunRelease
	// Claim is the claim that the volume is bound to, with the UID that the volume names; nil if
	// it does not exist.
	Claim *Claim
	// Successor: a claim of that name exists with another UID.
	Successor bool
	// Pods use the claim by its name and have not terminated. The pod that owns a generic
	// ephemeral claim is included even if it has.
	Pods []Pod
	// Terms are those of the claim, or of the class if the volume has no claim.
	Terms Terms
	// HasTombstone: there is a tombstone of this volume.
	HasTombstone bool
	// OtherUse describes for users what else on another node may use the volume's disk; empty if
	// nothing does.
	OtherUse string
	// Exhausted: releases of other claims used up the budget. A release that was written within
	// the leeway does not wait for budget.
	Exhausted bool
}

// Node is the state of the volume's node.
type Node string

// The states of a node.
const (
	Ready        Node = "Ready"        // kubelet reports that it works
	NotReady     Node = "NotReady"     // the object exists, but kubelet does not report
	OutOfService Node = "OutOfService" // not Ready, with the taint, and the configuration counts it
	Gone         Node = "Gone"         // the object does not exist
)

// Lost reports whether no provisioner manages the node's volumes.
func (n Node) Lost() bool { return n == Gone || n == OutOfService }

// DiskState is what a provisioner reports about a volume's disk.
type DiskState string

// The states that count.
const (
	DiskPresent  DiskState = ""
	DiskMissing  DiskState = "Missing"
	DiskReplaced DiskState = "Replaced"
	DiskFailing  DiskState = "Failing"
)

// Claim is a PersistentVolumeClaim.
type Claim struct {
	UID string
	// Bound: the claim names the volume, as the volume names the claim.
	Bound    bool
	Deleting bool
	// Recreator recreates the claim if it is deleted; nil if nothing does.
	Recreator *Recreator
	// Obstacle is why nothing recreates the claim, for users.
	Obstacle string
}

// Recreator makes a claim again.
type Recreator struct {
	// Name and UID are those of the StatefulSet, or of the pod of a generic ephemeral claim.
	Name, UID string
	// ByClaim: the claim itself says so, by annotation or owner reference; Name and UID are empty
	// then.
	ByClaim bool
	// ByPod: Name is a pod, which is deleted with its claim.
	ByPod bool
	// Leaving: this pod is terminating or gone.
	Leaving bool
}

// Pod uses the claim.
type Pod struct {
	Namespace, Name, UID string
	// Placed: the pod has a node. Such a pod protects the claim from deletion.
	Placed, Deleting bool
	// Controlled: the pod has a controller, which recreates it.
	Controlled bool
	// Created is to the second.
	Created time.Time
}

// Terms are the policy for a lost volume, and its delay.
type Terms struct {
	Release bool
	Delay   time.Duration
	// Problem is why the terms are invalid; the claim is kept then. Empty if they are valid.
	Problem string
}

// Mark is since when a volume is lost.
type Mark struct {
	Cause Cause
	Since time.Time
}

// BegunRelease is a release that was begun: of which claim, and when.
type BegunRelease struct {
	ClaimUID string
	At       time.Time
}

// Cause is why a volume is lost, a stable machine-readable word.
type Cause string

// The causes.
const (
	NodeGone         Cause = "NodeGone"
	NodeOutOfService Cause = "OutOfService"
	MissingDisk      Cause = "DiskMissing"
	ReplacedDisk     Cause = "DiskReplaced"
	FailingDisk      Cause = "DiskFailing"
)

// OfNode reports whether the whole node is lost.
func (c Cause) OfNode() bool { return c == NodeGone || c == NodeOutOfService }

// confirmed reports whether the volume itself says that its disk is lost. For a volume with a
// claim the report does not suffice: a provisioner whose report is rejected leaves an old one.
func (f *Facts) confirmed() bool {
	switch f.Volume.Mark {
	case disk.MarkMissing, disk.MarkReplaced, disk.MarkFailing:
		return true
	default:
		return f.Claim == nil
	}
}

// CauseOf returns why a volume is lost; empty if it is not.
func CauseOf(f *Facts) Cause {
	switch {
	case f.Node == Gone:
		return NodeGone
	case f.Node == OutOfService:
		return NodeOutOfService
	case f.Node != Ready || f.ProvisionerSince.IsZero() || !f.confirmed():
		return ""
	case f.Disk == DiskMissing:
		return MissingDisk
	case f.Disk == DiskReplaced:
		return ReplacedDisk
	case f.Disk == DiskFailing:
		return FailingDisk
	default:
		return ""
	}
}
