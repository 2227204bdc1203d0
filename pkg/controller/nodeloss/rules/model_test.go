// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"
	"time"

	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// choices are the values of one fact.
type choices []func(*rules.Facts)

const delay = 5 * time.Minute

// phases are the phases of a volume with its claim.
func phases() choices {
	var all choices
	for _, phase := range []disk.Phase{"", disk.PhaseAvailable, disk.PhaseBound, disk.PhaseReleased, disk.PhaseOfFailed} {
		all = append(all, func(f *rules.Facts) {
			f.Volume.Phase, f.Volume.Claimed, f.Volume.ClaimUID = phase, true, "claim"
		})
	}
	return append(all, func(f *rules.Facts) { f.Volume.Phase = disk.PhaseAvailable },
		func(f *rules.Facts) { f.Volume.Phase, f.Volume.Claimed = disk.PhaseAvailable, true })
}

// marks and releases are the annotations that were written before.
func marks() choices {
	all := choices{func(f *rules.Facts) { f.Mark = nil }}
	for cause, since := range map[rules.Cause][]time.Duration{rules.NodeGone: {time.Hour, delay - 1, -time.Hour}, rules.MissingDisk: {time.Hour}, rules.ReplacedDisk: {time.Hour}, rules.FailingDisk: {time.Hour}} {
		for _, since := range since {
			all = append(all, func(f *rules.Facts) { f.Mark = &rules.Mark{Cause: cause, Since: ago(since)} })
		}
	}
	return all
}

func releases() choices {
	all := choices{func(*rules.Facts) {}}
	for _, r := range []rules.BegunRelease{{ClaimUID: "claim", At: ago(time.Second)}, {ClaimUID: "claim", At: ago(2 * rules.Leeway)}, {ClaimUID: "else", At: ago(time.Second)}} {
		all = append(all, func(f *rules.Facts) { f.Release = &r })
	}
	return all
}

// claims are existing claims with their recreators.
func claims() choices {
	var all choices
	for bits := range 4 {
		for _, recreator := range []*rules.Recreator{nil, {UID: "set"}, {UID: "p", ByPod: true}, {UID: "p", ByPod: true, Leaving: true}} {
			all = append(all, func(f *rules.Facts) {
				f.Claim = &rules.Claim{UID: "claim", Bound: bits&1 != 0, Deleting: bits&2 != 0, Recreator: recreator}
			})
		}
	}
	return all
}

// pods are none, one of each kind, older than any release, and one that is newer.
func pods() choices {
	all := choices{func(*rules.Facts) {}}
	for _, bits := range []int{0, 1, 2, 3, 7} {
		all = append(all, func(f *rules.Facts) {
			f.Pods = []rules.Pod{{Name: "p", UID: "p", Placed: bits&1 != 0, Controlled: bits&2 != 0, Deleting: bits&4 != 0, Created: ago(time.Hour)}}
		})
	}
	return append(all, func(f *rules.Facts) {
		f.Pods = []rules.Pod{{Name: "p", UID: "p", Controlled: true, Created: ago(time.Hour)}, {Name: "new", UID: "new", Placed: true, Controlled: true, Created: now}}
	})
}

// nodes are states of node, provisioner and disk.
func nodes() choices {
	at := func(node rules.Node, state rules.DiskState, provisioner time.Duration) func(*rules.Facts) {
		return func(f *rules.Facts) {
			if f.Node, f.Disk = node, state; provisioner > 0 {
				f.ProvisionerSince = ago(provisioner)
			}
		}
	}
	all := choices{at(rules.Gone, rules.DiskPresent, 0), at(rules.OutOfService, rules.DiskPresent, 0), at(rules.NotReady, rules.DiskPresent, 0), at(rules.Ready, rules.DiskPresent, 2*time.Hour)}
	for _, state := range []rules.DiskState{rules.DiskMissing, rules.DiskReplaced, rules.DiskFailing} {
		reports := choices{at(rules.Ready, state, 0), at(rules.Ready, state, 2*time.Hour), at(rules.Ready, state, time.Minute), at(rules.NotReady, state, 2*time.Hour)}
		for _, choose := range reports {
			all = append(all, func(f *rules.Facts) { choose(f); f.Volume.Mark = disk.Mark(state) })
		}
	}
	for _, mark := range []disk.Mark{disk.Unmarked, disk.MarkUnproven} { // the report is old
		old := at(rules.Ready, rules.DiskMissing, 2*time.Hour)
		all = append(all, func(f *rules.Facts) { old(f); f.Volume.Mark = mark })
	}
	return all
}

// disks are identities, other uses of the disk, and stages of the volume's removal.
func disks() choices {
	var all choices
	for bits := range 8 {
		for _, identity := range []disk.Identity{"wwn:1", ""} {
			for _, elsewhere := range []string{"", "other"} {
				all = append(all, func(f *rules.Facts) {
					f.Volume.Deleting, f.Volume.Finalized, f.HasTombstone = bits&1 != 0, bits&2 != 0, bits&4 != 0
					f.Volume.Identity, f.OtherUse = identity, elsewhere
				})
			}
		}
	}
	return all
}

// allFacts are all combinations of a few values of each fact: of volumes whose claim exists, and
// of those whose claim does not.
func allFacts() [][]choices {
	reported := choices{func(f *rules.Facts) { f.ReportedAt = ago(2 * time.Hour) }, func(f *rules.Facts) { f.ReportedAt = ago(time.Minute) }}
	terms := choices{
		func(f *rules.Facts) { f.Terms.Release = true }, func(f *rules.Facts) { f.Terms.Release, f.Exhausted = true, true },
		func(*rules.Facts) {}, func(f *rules.Facts) { f.Terms.Release, f.Terms.Problem = true, "bad" },
	}
	policies := choices{func(f *rules.Facts) { f.Volume.Policy = disk.Delete }, func(f *rules.Facts) { f.Volume.Policy = disk.Retain }}
	without := choices{func(f *rules.Facts) { f.Claim = nil }, func(f *rules.Facts) { f.Claim, f.Successor = nil, true }}
	few := choices{
		func(f *rules.Facts) { f.Volume.Identity, f.Volume.Finalized = "wwn:1", true },
		func(f *rules.Facts) { f.Volume.Identity, f.Volume.Deleting, f.HasTombstone = "wwn:1", true, true },
	}
	made := choices{func(f *rules.Facts) { f.Provisioned = true }}
	return [][]choices{
		{made, phases(), marks(), claims(), releases(), nodes(), terms},
		{made, phases(), marks(), without, releases(), nodes(), policies, terms, choices{func(*rules.Facts) {}, func(f *rules.Facts) { f.Volume.Deleting = true }}},
		{phases(), marks(), claims(), releases(), pods(), nodes(), reported, terms, few},
		{phases(), marks(), without, releases(), pods(), nodes(), reported, policies, disks()},
	}
}

// visit checks every combination.
func visit(t *testing.T, f rules.Facts, rest []choices, decided *int) {
	if len(rest) == 0 {
		*decided++
		begin := f
		if wrong := dangerous(&f, rules.Decide(&f)); wrong != "" {
			t.Fatalf("%s: %s\n%+v\nclaim %+v mark %+v release %+v", rules.Decide(&f).Do, wrong, begin, f.Claim, f.Mark, f.Release)
		}
		return
	}
	for _, choose := range rest[0] {
		next := f
		choose(&next)
		visit(t, next, rest[1:], decided)
	}
}

// TestNoDecisionIsDangerous checks the decision about every volume of the model.
func TestNoDecisionIsDangerous(t *testing.T) {
	t.Parallel()
	decided := 0
	base := rules.Facts{Now: now, Terms: rules.Terms{Delay: delay}, Volume: disk.Volume{Policy: disk.Delete}}
	for _, facts := range allFacts() {
		visit(t, base, facts, &decided)
	}
	t.Logf("%d volumes", decided)
}

// dangerous returns the invariant that a decision violates; empty if none.
func dangerous(f *rules.Facts, d rules.Decision) string {
	switch d.Do {
	case rules.BeginRelease, rules.DeleteClaim:
		return wrongRelease(f, d)
	case rules.DeletePods:
		return wrongPods(f, d)
	case rules.AddTombstone, rules.DeleteVolume, rules.RemoveFinalizer:
		return wrongRemoval(f, d)
	case rules.DeletePavVolume:
		return wrongGivingUp(f)
	case rules.RemoveMark:
		if lost(f) {
			return "the volume is lost"
		}
	}
	return ""
}

// lost reports whether the volume is lost.
func lost(f *rules.Facts) bool {
	return f.Node == rules.Gone || f.Node == rules.OutOfService || f.Node == rules.Ready && f.Disk != rules.DiskPresent && !f.ProvisionerSince.IsZero() &&
		(f.Claim == nil || f.Volume.Mark == disk.Mark(f.Disk))
}

// long reports whether the delay is over.
func long(f *rules.Facts) bool {
	if f.Mark == nil || f.Now.Before(f.Mark.Since.Add(f.Terms.Delay)) {
		return false
	}
	if f.Node.Lost() {
		return (f.Mark.Cause == rules.NodeGone || f.Mark.Cause == rules.NodeOutOfService) && !f.ReportedAt.After(f.Mark.Since)
	}
	return f.Mark.Cause != rules.NodeGone && f.Mark.Cause != rules.NodeOutOfService && !f.ProvisionerSince.After(f.Mark.Since)
}

func wrongRelease(f *rules.Facts, d rules.Decision) string {
	switch {
	case !lost(f):
		return "the volume is not lost"
	case !long(f):
		return "the delay is not over"
	case f.Claim == nil || !f.Claim.Bound || f.Claim.Deleting:
		return "there is no claim to release"
	case f.Volume.Phase != disk.PhaseBound:
		return "the volume is not the claim's"
	case !f.Terms.Release || f.Terms.Problem != "":
		return "the claim must be kept"
	case f.Claim.Recreator == nil:
		return "nothing recreates the claim"
	case f.Claim.Recreator.Leaving:
		return "the claim is deleted by its owner"
	case d.Do == rules.BeginRelease && f.Exhausted:
		return "the budget is spent"
	case d.Do == rules.DeleteClaim && (f.Release == nil || f.Release.ClaimUID != f.Claim.UID):
		return "the release was not written down"
	case d.Do == rules.DeleteClaim && f.Now.Sub(f.Release.At) > rules.Leeway:
		return "the release counts for another minute"
	}
	for _, p := range f.Pods {
		if !f.Node.Lost() && p.Placed && !p.Controlled {
			return "a pod would be lost"
		}
	}
	return ""
}

func wrongPods(f *rules.Facts, d rules.Decision) string {
	switch {
	case f.Release == nil || f.Release.ClaimUID != f.Volume.ClaimUID:
		return "nothing was released"
	case f.Claim != nil && !f.Claim.Deleting:
		return "their claim is there"
	case f.Successor:
		return "their claim was made again"
	}
	for _, p := range d.Pods {
		if !p.Controlled || p.Created.After(f.Release.At) {
			return "a pod is deleted that nothing recreates, or that is new"
		}
		if p.Deleting && !f.Node.Lost() {
			return "a pod is deleted that its kubelet ends"
		}
	}
	return ""
}

func wrongGivingUp(f *rules.Facts) string {
	released := f.Release != nil && f.Release.ClaimUID == f.Volume.ClaimUID
	switch {
	case !f.Provisioned:
		return "the volume has no PavVolume"
	case f.Node != rules.Gone:
		return "the node exists"
	case !released && (!f.Terms.Release || !long(f)):
		return "nothing has given up the data"
	case f.Claim != nil || f.Volume.Phase != disk.PhaseReleased:
		return "the volume has a claim"
	case f.Volume.Policy == disk.Retain:
		return "the volume is its administrator's"
	}
	return ""
}

func wrongRemoval(f *rules.Facts, d rules.Decision) string {
	released := f.Release != nil && f.Release.ClaimUID == f.Volume.ClaimUID
	switch {
	case f.Provisioned:
		return "the volume has no disk that a provisioner finds"
	case !lost(f):
		return "the volume is not lost"
	case !long(f) && !released:
		return "the delay is not over"
	case f.Claim != nil || f.Volume.Phase == disk.PhaseBound:
		return "the volume has a claim"
	case f.Volume.Phase == disk.PhaseAvailable && f.Volume.Claimed:
		return "the volume is kept for a claim"
	case f.Volume.Policy == disk.Retain && f.Volume.Phase != disk.PhaseAvailable && !f.Volume.Deleting:
		return "the volume is its administrator's"
	case f.Volume.Identity == "":
		return "the disk has no identity"
	case d.Do == rules.AddTombstone && (f.HasTombstone || f.OtherUse != ""):
		return "there is a tombstone, or another node has the disk"
	case d.Do != rules.AddTombstone && !f.HasTombstone:
		return "there is no tombstone"
	case d.Do == rules.DeleteVolume && f.Volume.Deleting:
		return "the volume is being deleted"
	case d.Do == rules.RemoveFinalizer && (!f.Volume.Deleting || !f.Node.Lost()):
		return "a provisioner may still clean it"
	case d.Do == rules.RemoveFinalizer && !f.Volume.Finalized:
		return "it has no finalizer of Stowage"
	}
	return ""
}
