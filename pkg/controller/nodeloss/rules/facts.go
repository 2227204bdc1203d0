// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Facts are what is known about a volume of ours. Deciding changes nothing of them.
type Facts struct {
	Now    time.Time
	Volume Volume
	Node   Node
	// Disk is what the agent of the node last reported of the volume's disk.
	Disk DiskState
	// AgentSince is since when the agent's pod on the node is Ready, to the second; zero
	// if it is not. What an agent that does not work has reported last may long have
	// ceased to be so.
	AgentSince time.Time
	// ReportedAt is when that agent last wrote its report; zero if it never did.
	ReportedAt time.Time
	// Mark is since when the volume is known to be lost; nil if it is not known to be.
	Mark *Mark
	// Release is the release that was begun; nil if none was.
	Release *Began
	// Claim is the claim that the volume is bound to, of the UID that the volume names;
	// nil if there is none such.
	Claim *Claim
	// Successor says that there is a claim of that name with another UID.
	Successor bool
	// Pods use the claim by its name, and have not ended, but for the one that a generic
	// ephemeral claim belongs to, which may have.
	Pods []Pod
	// Terms are those of the claim, or of the volume's class if it has no claim.
	Terms Terms
	// Buried says that the node's report has a tombstone of this very volume.
	Buried bool
	// Elsewhere is what else may be of the same disk, on another node, as users are told;
	// empty if nothing is.
	Elsewhere string
	// Exhausted says that the budget is spent by releases of other claims. A release that
	// was written down just now does not wait for it.
	Exhausted bool
}

// Volume is the PersistentVolume.
type Volume struct {
	Phase    disk.Phase
	Policy   disk.Policy
	Identity disk.Identity
	// Claimed says that it names a claim (spec.claimRef), UID which; empty if that names
	// no UID.
	Claimed  bool
	ClaimUID string
	// Mark is what the volume says of its disk, for those who place pods.
	Mark disk.Mark
	// Deleting says that it has a deletionTimestamp, Finalized that it has our finalizer.
	Deleting, Finalized bool
}

// Node is what there is of the volume's node.
type Node string

// The ways in which a node is there, or not.
const (
	Ready        Node = "Ready"        // there, and kubelet says that it works
	NotReady     Node = "NotReady"     // there, and nobody knows more
	OutOfService Node = "OutOfService" // there, not Ready, with the taint, and the taint counts
	Gone         Node = "Gone"         // not there
)

// Away says whether no agent deals with the node's volumes.
func (n Node) Away() bool { return n == Gone || n == OutOfService }

// DiskState is what an agent reports of a volume's disk.
type DiskState string

// The states that count.
const (
	DiskThere    DiskState = ""
	DiskMissing  DiskState = "Missing"
	DiskReplaced DiskState = "Replaced"
	DiskFailing  DiskState = "Failing"
)

// Claim is a PersistentVolumeClaim.
type Claim struct {
	UID string
	// Bound says that the claim names the volume, as the volume names it.
	Bound    bool
	Deleting bool
	// Maker is who makes the claim again if it is deleted; nil if nobody does.
	Maker *Maker
	// Hindrance is why nobody does, as users are told.
	Hindrance string
}

// Maker makes a claim again.
type Maker struct {
	// Name and UID are those of the StatefulSet, or of the pod of a generic ephemeral claim.
	Name, UID string
	// ByClaim says that the claim itself has been read to say so, by its annotation or an
	// owner reference: Name and UID are empty then.
	ByClaim bool
	// ByPod says that it is the latter: the pod is deleted, and its claim goes with it.
	ByPod bool
	// Leaving says that this pod is on its way out, or gone.
	Leaving bool
}

// Pod uses the claim.
type Pod struct {
	Namespace, Name, UID string
	// Placed says that it has a node. Such a pod keeps the claim from going.
	Placed, Deleting bool
	// Controlled says that it has a controller, which makes it anew.
	Controlled bool
	// Created is to the second.
	Created time.Time
}

// Terms say what is to be done, and when.
type Terms struct {
	Release bool
	Delay   time.Duration
	// Problem is why the terms cannot be read; they are to keep then. Empty if they can.
	Problem string
}

// Mark is since when a volume is lost.
type Mark struct {
	Cause Cause
	Since time.Time
}

// Began is a release that was begun: of which claim, and when.
type Began struct {
	ClaimUID string
	At       time.Time
}

// Cause is why a volume is lost, in a word that stays the same from release to
// release.
type Cause string

// The causes.
const (
	NodeGone         Cause = "NodeGone"
	NodeOutOfService Cause = "OutOfService"
	MissingDisk      Cause = "DiskMissing"
	ReplacedDisk     Cause = "DiskReplaced"
	FailingDisk      Cause = "DiskFailing"
)

// Causes are all causes.
func Causes() []Cause {
	return []Cause{NodeGone, NodeOutOfService, MissingDisk, ReplacedDisk, FailingDisk}
}

// OfNode reports whether the whole node is lost.
func (c Cause) OfNode() bool { return c == NodeGone || c == NodeOutOfService }

// confirmed reports whether the volume itself says that its disk is lost. Of a volume with a
// claim the report does not suffice: a provisioner whose report is refused leaves an old one.
func (f *Facts) confirmed() bool {
	switch f.Volume.Mark {
	case disk.MarkMissing, disk.MarkReplaced, disk.MarkFailing:
		return true
	default:
		return f.Claim == nil
	}
}

// CauseOf is why a volume is lost; empty if it is not.
func CauseOf(f *Facts) Cause {
	switch {
	case f.Node == Gone:
		return NodeGone
	case f.Node == OutOfService:
		return NodeOutOfService
	case f.Node != Ready || f.AgentSince.IsZero() || !f.confirmed():
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
