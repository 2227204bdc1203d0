// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Action is the one thing to write next. After it is written, or has failed, the
// volume is decided about again.
type Action string

// The actions.
const (
	None        Action = "None"
	MarkLost    Action = "MarkLost"    // write Decision.Mark on the volume
	Unmark      Action = "Unmark"      // take mark and release off the volume
	Begin       Action = "Begin"       // write the release on the volume, with the time that it is now
	DeleteClaim Action = "DeleteClaim" // or, of a generic ephemeral claim, its pod
	DeletePods  Action = "DeletePods"  // Decision.Pods
	Bury        Action = "Bury"        // write a tombstone into the node's report
	Remove      Action = "Remove"      // delete the volume
	LetGo       Action = "LetGo"       // take our finalizer off the volume
)

// State is how a lost volume stands, in a word that stays the same from release to
// release.
type State string

// The states.
const (
	Fine           State = ""                    // not lost
	Waiting        State = "Waiting"             // the delay is not over
	Kept           State = "Kept"                // by policy
	Invalid        State = "InvalidNodeLoss"     // the terms cannot be read
	NotRecreatable State = "ClaimNotRecreatable" // nobody makes the claim again
	Throttled      State = "Throttled"           // the budget is spent
	Releasing      State = "Releasing"           // the claim is being released
	Removing       State = "Removing"            // the volume is being removed
	Retained       State = "Retained"            // without a claim, and kept by its reclaim policy
	Unidentified   State = "Unidentified"        // there is nothing to know its disk by, or a disk elsewhere is known by it
	SomebodyElse   State = "SomebodyElse"        // somebody else has to do something first
)

// Decision is what to do about a volume, and what to tell.
type Decision struct {
	Do    Action
	State State
	// Cause and Since are of the loss; empty if the volume is not lost.
	Cause Cause
	Since time.Time
	// Due is when the delay is over; zero if there is none to wait for.
	Due time.Time
	// Message is more about the state, as users are told; of SomebodyElse, for whom it waits,
	// and empty if that takes but a moment.
	Message string
	// Pods goes with DeletePods.
	Pods []Pod
}

// Decide says what to do about a volume of ours.
func Decide(f *Facts) Decision {
	if pods := left(f); len(pods) > 0 { // what has begun is finished, whether the node is back or not
		return Decision{Do: DeletePods, State: Releasing, Cause: CauseOf(f), Pods: pods}
	}
	cause := CauseOf(f)
	if cause == "" {
		if f.Mark != nil || f.Release != nil {
			return Decision{Do: Unmark}
		}
		return Decision{Do: None}
	}
	since, anew := Since(f, cause)
	d := Decision{Cause: cause, Since: since, Due: since.Add(f.Terms.Delay)}
	if anew {
		d.Do, d.State = MarkLost, Waiting
		return d
	}
	if f.Claim != nil {
		return claimed(f, d)
	}
	return free(f, d)
}

// Since is since when a volume is lost for a cause, and whether that is yet to be
// written down.
func Since(f *Facts, cause Cause) (since time.Time, anew bool) {
	switch {
	case f.Mark == nil, f.Mark.Cause.OfNode() != cause.OfNode(), f.Mark.Since.After(f.Now):
		return f.Now, true
	case cause.OfNode() && f.ReportedAt.After(f.Mark.Since) && !f.ReportedAt.After(f.Now): // a clock ahead of ours counts once we are there
		return f.Now, true // the node was back, and its agent has run
	case !cause.OfNode() && f.AgentSince.After(f.Mark.Since) && !f.AgentSince.After(f.Now):
		return f.Now, true // meanwhile nobody looked at the disk
	default:
		return f.Mark.Since, false
	}
}

// released says whether the claim that the volume names was released by us.
func (f *Facts) released() bool {
	return f.Release != nil && f.Release.ClaimUID != "" && f.Release.ClaimUID == f.Volume.ClaimUID
}

// AfterRelease returns what releasing the claim leads to if nothing else changes: the pods that
// are deleted with it, and how the volume stands then.
func AfterRelease(f *Facts) ([]Pod, Decision) {
	after, claim := *f, *f.Claim
	claim.Deleting = true
	after.Claim, after.Release = &claim, &Began{ClaimUID: claim.UID, At: f.Now}
	pods := left(&after)
	after.Claim, after.Pods, after.Volume.Phase = nil, nil, disk.PhaseReleased
	return pods, Decide(&after)
}

// left are the pods that a release leaves behind: older than it, and made anew by
// others once they are gone.
func left(f *Facts) []Pod {
	if !f.released() || f.Successor || f.Claim != nil && !f.Claim.Deleting {
		return nil
	}
	var pods []Pod
	for _, pod := range f.Pods {
		old := !pod.Created.After(f.Release.At)
		if old && pod.Controlled && (!pod.Deleting || f.Node.Away()) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// claimed decides about a volume whose claim is there.
func claimed(f *Facts, d Decision) Decision {
	c := f.Claim
	begun := f.released()
	switch {
	case c.Deleting && begun:
		return d.wait(Releasing, "")
	case c.Deleting:
		return d.wait(SomebodyElse, "for the claim to be gone, which somebody has deleted")
	case !c.Bound || f.Volume.Phase != disk.PhaseBound:
		return d.wait(SomebodyElse, "for the PersistentVolume controller, as the claim is not bound to it")
	case f.Terms.Problem != "":
		return d.wait(Invalid, f.Terms.Problem)
	case !f.Terms.Release:
		return d.wait(Kept, "")
	case c.Maker == nil:
		return d.wait(NotRecreatable, c.Hindrance)
	case c.Maker.Leaving && begun:
		return d.wait(Releasing, "")
	case c.Maker.Leaving:
		return d.wait(SomebodyElse, "for the claim to go with pod "+c.Maker.Name+", to which it belongs, and which is on its way out or gone")
	}
	if !f.Node.Away() {
		for _, pod := range f.Pods {
			if pod.Placed && !pod.Controlled {
				return d.wait(NotRecreatable, "pod "+pod.Name+" uses it, which has no controller that makes it anew")
			}
		}
	}
	switch {
	case f.Now.Before(d.Due):
		return d.wait(Waiting, "")
	case begun && f.Release.Prompt(f.Now):
		d.Do, d.State = DeleteClaim, Releasing
	case f.Exhausted:
		return d.wait(Throttled, "")
	default:
		d.Do, d.State = Begin, Releasing
	}
	return d
}

// free decides about a volume whose claim is not there.
func free(f *Facts, d Decision) Decision {
	v := &f.Volume
	switch {
	case v.Phase == disk.PhaseReleased, v.Phase == disk.PhaseAvailable && !v.Claimed, v.Phase == disk.PhaseOfFailed && v.Deleting:
	case v.Phase == disk.PhaseAvailable && v.ClaimUID == "":
		return d.wait(SomebodyElse, "for the claim that it is reserved for: take its claimRef off to have it removed")
	case v.Phase == disk.PhaseOfFailed:
		return d.wait(SomebodyElse, "for an administrator to delete it, as its phase is Failed")
	default: // the PersistentVolume controller is behind, or somebody binds it
		return d.wait(SomebodyElse, "")
	}
	switch {
	case v.Policy != disk.Delete && v.Phase != disk.PhaseAvailable && !v.Deleting:
		return d.wait(Retained, "")
	case f.Now.Before(d.Due) && !f.released(): // what the claim had asked for is not known any more
		return d.wait(Waiting, "")
	case v.Identity == "":
		return d.wait(Unidentified, "")
	case f.Elsewhere != "" && !f.Buried: // a tombstone would have that disk cleaned
		return d.wait(Unidentified, f.Elsewhere)
	}
	d.State = Removing
	switch {
	case !f.Buried:
		d.Do = Bury
	case !v.Deleting:
		d.Do = Remove
	case v.Finalized && f.Node.Away():
		d.Do = LetGo
	default:
		return d.wait(Removing, "") // the agent lets it go
	}
	return d
}

func (d Decision) wait(state State, message string) Decision {
	d.Do, d.State, d.Message = None, state, message
	return d
}
