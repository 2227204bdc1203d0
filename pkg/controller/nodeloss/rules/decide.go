// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides what to do about a volume that is lost with its node or its
// disk. Decide takes the facts of one volume and returns the next action; package nodeloss
// reads the facts and takes the action.
//
// A model in the tests checks that no decision releases a claim that its terms keep, that
// nothing recreates, or whose delay is not over; deletes a volume whose claim exists; or
// removes a finalizer without a tombstone.
package rules

import (
	"slices"
	"time"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Action is the next write. After it succeeded or failed, the volume is decided about again.
type Action string

// The actions.
const (
	None            Action = "None"
	MarkLost        Action = "MarkLost"        // write Decision.Mark on the volume
	RemoveMark      Action = "RemoveMark"      // remove mark and release from the volume
	BeginRelease    Action = "BeginRelease"    // write the release on the volume, with the current time
	DeleteClaim     Action = "DeleteClaim"     // or, of a generic ephemeral claim, its pod
	DeletePods      Action = "DeletePods"      // Decision.Pods
	AddTombstone    Action = "AddTombstone"    // write a tombstone of the disk
	DeleteVolume    Action = "DeleteVolume"    // delete the volume
	RemoveFinalizer Action = "RemoveFinalizer" // remove the finalizer from the volume
	DeletePavVolume Action = "DeletePavVolume" // give up what the node has of a provisioned volume
)

// State is the state of a lost volume, a stable machine-readable word.
type State string

// The states.
const (
	NotLost        State = ""                    // not lost
	Waiting        State = "Waiting"             // the delay is not over
	Kept           State = "Kept"                // by policy
	Invalid        State = "InvalidNodeLoss"     // the terms cannot be read
	NotRecreatable State = "ClaimNotRecreatable" // nothing recreates the claim
	Throttled      State = "Throttled"           // the budget is spent
	Releasing      State = "Releasing"           // the claim is being released
	Removing       State = "Removing"            // the volume is being removed
	Retained       State = "Retained"            // without a claim, and kept by its reclaim policy
	Unidentified   State = "Unidentified"        // it has no disk identity, or something else may use the disk
	Blocked        State = "Blocked"             // another actor has to act first
)

// Decision is what to do about a volume, and its state for users.
type Decision struct {
	Do    Action
	State State
	// Cause and Since are of the loss; empty if the volume is not lost.
	Cause Cause
	Since time.Time
	// Due is when the delay is over; zero without a delay.
	Due time.Time
	// Message explains the state to users. For Blocked it says what the volume waits for; empty if
	// that takes only a moment.
	Message string
	// Pods are the pods to delete with DeletePods.
	Pods []Pod
}

// Decide returns the next action for an owned volume.
func Decide(f *Facts) Decision {
	if pods := podsToDelete(f); len(pods) > 0 { // a release that was begun is finished even if the node is back
		return Decision{Do: DeletePods, State: Releasing, Cause: CauseOf(f), Pods: pods}
	}
	cause := CauseOf(f)
	if cause == "" {
		if f.Mark != nil || f.Release != nil {
			return Decision{Do: RemoveMark}
		}
		return Decision{Do: None}
	}
	since, unwritten := Since(f, cause)
	d := Decision{Cause: cause, Since: since, Due: since.Add(f.Terms.Delay)}
	if unwritten {
		d.Do, d.State = MarkLost, Waiting
		return d
	}
	switch {
	case f.Claim != nil:
		return decideClaimed(f, d)
	case f.Provisioned:
		return decideProvisioned(f, d)
	default:
		return decideUnclaimed(f, d)
	}
}

// Since returns since when a volume is lost for a cause, and whether the mark has to be written.
func Since(f *Facts, cause Cause) (since time.Time, unwritten bool) {
	switch {
	case f.Mark == nil, f.Mark.Cause.OfNode() != cause.OfNode(), f.Mark.Since.After(f.Now):
		return f.Now, true
	case cause.OfNode() && f.ReportedAt.After(f.Mark.Since) && !f.ReportedAt.After(f.Now): // a report dated in the future counts once that time has come
		return f.Now, true // the node was back, and its provisioner ran
	case !cause.OfNode() && f.ProvisionerSince.After(f.Mark.Since) && !f.ProvisionerSince.After(f.Now):
		return f.Now, true // no provisioner observed the disk in between
	default:
		return f.Mark.Since, false
	}
}

// released reports whether this controller released the claim that the volume names.
func (f *Facts) released() bool {
	return f.Release != nil && f.Release.ClaimUID != "" && f.Release.ClaimUID == f.Volume.ClaimUID
}

// AfterRelease returns the result of releasing the claim if nothing else changes: the pods that
// are deleted with it, and the decision about the volume after that.
func AfterRelease(f *Facts) ([]Pod, Decision) {
	after, claim := *f, *f.Claim
	claim.Deleting = true
	after.Claim, after.Release = &claim, &BegunRelease{ClaimUID: claim.UID, At: f.Now}
	pods := podsToDelete(&after)
	after.Claim, after.Pods, after.Volume.Phase = nil, nil, disk.PhaseReleased
	return pods, Decide(&after)
}

// podsToDelete returns the pods that a release leaves behind: created before it, and recreated by
// their controllers after deletion.
func podsToDelete(f *Facts) []Pod {
	if !f.released() || f.Successor || f.Claim != nil && !f.Claim.Deleting {
		return nil
	}
	var pods []Pod
	for _, pod := range f.Pods {
		old := !pod.Created.After(f.Release.At)
		if old && pod.Controlled && (!pod.Deleting || f.Node.Lost()) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// decideClaimed decides about a volume whose claim exists.
func decideClaimed(f *Facts, d Decision) Decision {
	c := f.Claim
	begun := f.released()
	switch {
	case c.Deleting && begun:
		return d.wait(Releasing, "")
	case c.Deleting:
		return d.wait(Blocked, "for the deletion of the claim, which a user requested")
	case !c.Bound || f.Volume.Phase != disk.PhaseBound:
		return d.wait(Blocked, "for the PersistentVolume controller: the claim is not bound to the volume")
	case f.Terms.Problem != "":
		return d.wait(Invalid, f.Terms.Problem)
	case !f.Terms.Release:
		return d.wait(Kept, "")
	case c.Recreator == nil:
		return d.wait(NotRecreatable, c.Obstacle)
	case c.Recreator.Leaving && begun:
		return d.wait(Releasing, "")
	case c.Recreator.Leaving:
		return d.wait(Blocked, "for the deletion of the claim with its owner, pod "+c.Recreator.Name+", which is terminating or gone")
	}
	if !f.Node.Lost() {
		for _, pod := range f.Pods {
			if pod.Placed && !pod.Controlled {
				return d.wait(NotRecreatable, "pod "+pod.Name+" uses it, which has no controller that recreates it")
			}
		}
	}
	switch {
	case f.Now.Before(d.Due):
		return d.wait(Waiting, "")
	case begun && f.Release.WithinLeeway(f.Now):
		d.Do, d.State = DeleteClaim, Releasing
	case f.Exhausted:
		return d.wait(Throttled, "")
	default:
		d.Do, d.State = BeginRelease, Releasing
	}
	return d
}

// decideUnclaimed decides about a volume whose claim does not exist.
func decideUnclaimed(f *Facts, d Decision) Decision {
	v := &f.Volume
	switch {
	case v.Phase == disk.PhaseReleased, v.Phase == disk.PhaseAvailable && !v.Claimed, v.Phase == disk.PhaseOfFailed && v.Deleting:
	case v.Phase == disk.PhaseAvailable && v.ClaimUID == "":
		return d.wait(Blocked, "for the claim that it is reserved for: remove its claimRef to have it removed")
	case v.Phase == disk.PhaseOfFailed:
		return d.wait(Blocked, "for an administrator to delete it: its phase is Failed")
	default: // the PersistentVolume controller lags behind, or the volume is being bound
		return d.wait(Blocked, "")
	}
	switch {
	case v.Policy != disk.Delete && v.Phase != disk.PhaseAvailable && !v.Deleting:
		return d.wait(Retained, "")
	case f.Now.Before(d.Due) && !f.released(): // the claim's own delay is no longer known
		return d.wait(Waiting, "")
	case v.Identity == "":
		return d.wait(Unidentified, "")
	case f.OtherUse != "" && !f.HasTombstone: // a tombstone would have that disk cleaned
		return d.wait(Unidentified, f.OtherUse)
	}
	d.State = Removing
	switch {
	case !f.HasTombstone:
		d.Do = AddTombstone
	case !v.Deleting:
		d.Do = DeleteVolume
	case v.Finalized && f.Node.Lost():
		d.Do = RemoveFinalizer
	default:
		return d.wait(Removing, "") // the provisioner removes the finalizer
	}
	return d
}

// decideProvisioned decides about a provisioned volume whose claim does not exist. It is given up
// only by the terms that release claims, since its data would stay on a node that returns.
func decideProvisioned(f *Facts, d Decision) Decision {
	v := &f.Volume
	switch {
	case v.Phase != disk.PhaseReleased:
		return d.wait(Blocked, "")
	case v.Policy != disk.Delete:
		return d.wait(Retained, "")
	case d.Cause != NodeGone:
		return d.wait(Blocked, "for its node, where its deletion pod runs")
	case !f.released() && !f.Terms.Release:
		return d.wait(Kept, "")
	case !f.released() && f.Now.Before(d.Due):
		return d.wait(Waiting, "")
	}
	d.Do, d.State = DeletePavVolume, Removing
	return d
}

func (d Decision) wait(state State, message string) Decision {
	d.Do, d.State, d.Message = None, state, message
	return d
}

// Window is the interval in which releases are counted.
const Window = time.Minute

// Leeway is the time after the release was written in which the claim may be deleted.
const Leeway = 10 * time.Second

// WithinLeeway reports whether the claim of a release may be deleted now. Later the release is
// written again, within the budget: otherwise claims whose releases were written before a
// controller crashed would be deleted in addition to those of its successor. A release dated in
// the future would be counted at another time than its claim is deleted.
func (r *BegunRelease) WithinLeeway(now time.Time) bool {
	return now.Sub(r.At) <= Leeway && r.At.Sub(now) <= Leeway
}

// Spent is how many of the releases, by the UID of their volumes, may have had a claim deleted in
// the window that ends now. Releases dated further ahead than clocks may differ do not count: they
// would block all others forever.
func Spent(releases map[string]time.Time, now time.Time) int {
	return len(inWindow(releases, now))
}

// AvailableAt is when budget is available again: when fewer than limit releases, which is at least
// 1, are in the window.
func AvailableAt(releases map[string]time.Time, limit int, now time.Time) time.Time {
	in := inWindow(releases, now)
	if len(in) < limit {
		return now
	}
	slices.SortFunc(in, time.Time.Compare)
	return in[len(in)-max(limit, 1)].Add(Window + Leeway)
}

// inWindow returns the times of the releases in the window.
func inWindow(releases map[string]time.Time, now time.Time) []time.Time {
	var in []time.Time
	for _, at := range releases {
		if at.After(now.Add(-Window-Leeway)) && at.Before(now.Add(Window)) {
			in = append(in, at)
		}
	}
	return in
}

// PublishedVolume is a volume of a tombstone's disk.
type PublishedVolume struct {
	Identity, UID string
	Created       time.Time // to the second
	Deleting      bool
	// Shown: the volume is of the tombstone's node, or the report of its node lists the disk with
	// this volume.
	Shown bool
	// OnOtherNode: a node other than the volume's reports the disk.
	OnOtherNode bool
	// Lost: the volume is marked as lost, or its node does not exist.
	Lost bool
}

// Resolved reports whether a tombstone is no longer needed. Either the disk was published again
// after the tombstone was written: it was clean then, because provisioners publish clean disks
// only. Or the volume of the tombstone still exists and its node is back. A tombstone that stayed
// would have data cleaned that is written from now on. A tombstone that retains data is resolved
// only by the second case: it is up to the administrator.
func Resolved(t stowage.Tombstone, volumes []PublishedVolume) bool {
	var since time.Time
	if t.Since != nil {
		since = t.Since.Truncate(time.Second)
	}
	for _, v := range volumes {
		switch {
		case v.Identity != t.Identity || v.OnOtherNode:
		case v.UID == t.VolumeUID:
			if !v.Deleting && !v.Lost {
				return true
			}
		case v.Shown && t.State != stowage.TombstoneRetained && !v.Created.Before(since):
			return true
		}
	}
	return false
}
