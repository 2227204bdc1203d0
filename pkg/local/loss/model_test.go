// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package loss_test

import (
	"testing"
	"time"

	"stowage.dev/stowage/pkg/local/disk"
	"stowage.dev/stowage/pkg/local/loss"
)

// choices are the values of one thing that is known.
type choices []func(*loss.Facts)

// world is everything that can be known, from a few values for each thing.
func world() []choices {
	const delay = 5 * time.Minute
	set := func(change func(*loss.Facts)) func(*loss.Facts) { return change }
	var phases, marks, claims, releases, pods choices
	for _, phase := range []disk.Phase{"", disk.PhaseAvailable, disk.PhaseBound, disk.PhaseReleased, disk.PhaseOfFailed} {
		phases = append(phases, func(f *loss.Facts) {
			f.Volume.Phase, f.Volume.Claimed, f.Volume.ClaimUID = phase, true, "claim"
		})
	}
	phases = append(phases, func(f *loss.Facts) { f.Volume.Phase = disk.PhaseAvailable },
		func(f *loss.Facts) { f.Volume.Phase, f.Volume.Claimed = disk.PhaseAvailable, true })
	marks = append(marks, func(f *loss.Facts) { f.Mark = nil })
	for cause, since := range map[loss.Cause][]time.Duration{loss.NodeGone: {time.Hour, delay - 1, -time.Hour}, loss.MissingDisk: {time.Hour}} {
		for _, since := range since {
			marks = append(marks, func(f *loss.Facts) { f.Mark = &loss.Mark{Cause: cause, Since: ago(since)} })
		}
	}
	claims = append(claims, func(f *loss.Facts) { f.Claim = nil }, func(f *loss.Facts) { f.Claim, f.Successor = nil, true })
	for bits := range 8 {
		claims = append(claims, func(f *loss.Facts) {
			f.Claim = &loss.Claim{UID: "claim", Bound: bits&1 != 0, Deleting: bits&2 != 0}
			if bits&4 != 0 {
				f.Claim.Maker = &loss.Maker{UID: "set"}
			}
		})
	}
	for _, r := range []*loss.Began{nil, {ClaimUID: "claim", At: ago(time.Second)}, {ClaimUID: "else", At: ago(time.Second)}} {
		releases = append(releases, func(f *loss.Facts) { f.Release = r })
	}
	pods = append(pods, func(*loss.Facts) {})
	for bits := range 4 {
		pods = append(pods, func(f *loss.Facts) {
			f.Pods = []loss.Pod{{Name: "p", Placed: bits&1 != 0, Controlled: bits&2 != 0, Created: ago(time.Hour)}}
		})
	}
	return []choices{
		phases, marks, claims, releases, pods,
		{set(func(f *loss.Facts) { f.Node = loss.Gone }), set(func(f *loss.Facts) { f.Node = loss.OutOfService }), set(func(f *loss.Facts) { f.Node = loss.NotReady }),
			set(func(f *loss.Facts) { f.Node = loss.Ready }), set(func(f *loss.Facts) { f.Node, f.Disk = loss.Ready, loss.DiskMissing }),
			set(func(f *loss.Facts) { f.Node, f.Disk, f.AgentSince = loss.Ready, loss.DiskMissing, ago(2*time.Hour) }),
			set(func(f *loss.Facts) { f.Node, f.Disk, f.AgentSince = loss.Ready, loss.DiskMissing, ago(time.Minute) }), set(func(f *loss.Facts) { f.Node, f.Disk = loss.NotReady, loss.DiskMissing })},
		{set(func(f *loss.Facts) { f.Terms.Release = true }), set(func(f *loss.Facts) { f.Terms.Release = false }), set(func(f *loss.Facts) { f.Terms.Release, f.Terms.Problem = true, "bad" })},
		{set(func(f *loss.Facts) { f.Volume.Policy = disk.Delete }), set(func(f *loss.Facts) { f.Volume.Policy = disk.Retain })},
		{set(func(f *loss.Facts) { f.Volume.Deleting = false }), set(func(f *loss.Facts) { f.Volume.Deleting = true })},
		{set(func(f *loss.Facts) { f.Buried = false }), set(func(f *loss.Facts) { f.Buried = true })},
		{set(func(f *loss.Facts) { f.Exhausted = false }), set(func(f *loss.Facts) { f.Exhausted = true })},
		{set(func(f *loss.Facts) { f.ReportedAt = ago(2 * time.Hour) }), set(func(f *loss.Facts) { f.ReportedAt = ago(time.Minute) })},
	}
}

// visit asks about everything.
func visit(t *testing.T, f loss.Facts, rest []choices, asked *int) {
	if len(rest) == 0 {
		*asked++
		begin := f
		if wrong := dangerous(&f, loss.Decide(&f)); wrong != "" {
			t.Fatalf("%s: %s\n%+v\nclaim %+v mark %+v release %+v", loss.Decide(&f).Do, wrong, begin, f.Claim, f.Mark, f.Release)
		}
		return
	}
	for _, choose := range rest[0] {
		next := f
		choose(&next)
		visit(t, next, rest[1:], asked)
	}
}

// TestNoDecisionIsDangerous asks about every volume of the world.
func TestNoDecisionIsDangerous(t *testing.T) {
	t.Parallel()
	asked := 0
	base := loss.Facts{Now: now, Terms: loss.Terms{Delay: 5 * time.Minute}, Volume: loss.Volume{Identity: "wwn:1", Finalized: true}}
	visit(t, base, world(), &asked)
	t.Logf("%d volumes", asked)
}

// dangerous says what a decision would do that must never be; empty if nothing.
func dangerous(f *loss.Facts, d loss.Decision) string {
	lost := f.Node == loss.Gone || f.Node == loss.OutOfService || f.Node == loss.Ready && f.Disk != loss.DiskThere && !f.AgentSince.IsZero()
	long := f.Mark != nil && !f.Now.Before(f.Mark.Since.Add(f.Terms.Delay))
	if f.Mark != nil && f.Node.Away() && (f.Mark.Cause == loss.MissingDisk || f.ReportedAt.After(f.Mark.Since)) {
		long = false
	}
	if f.Mark != nil && !f.Node.Away() && f.AgentSince.After(f.Mark.Since) {
		long = false
	}
	switch d.Do {
	case loss.Begin, loss.DeleteClaim:
		switch {
		case !lost:
			return "the volume is not lost"
		case !long:
			return "the delay is not over"
		case f.Claim == nil || !f.Claim.Bound || f.Claim.Deleting:
			return "there is no claim to release"
		case !f.Terms.Release || f.Terms.Problem != "":
			return "the claim is to be kept"
		case f.Claim.Maker == nil:
			return "nobody makes the claim again"
		case d.Do == loss.Begin && f.Exhausted:
			return "the budget is spent"
		case d.Do == loss.DeleteClaim && (f.Release == nil || f.Release.ClaimUID != f.Claim.UID):
			return "the release was not written down"
		}
	case loss.DeletePods:
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
				return "a pod goes that nobody makes anew, or that is new"
			}
		}
	case loss.Bury, loss.Remove, loss.LetGo:
		released := f.Release != nil && f.Release.ClaimUID == f.Volume.ClaimUID
		switch {
		case !lost:
			return "the volume is not lost"
		case !long && !released:
			return "the delay is not over"
		case f.Claim != nil || f.Volume.Phase == disk.PhaseBound:
			return "the volume has a claim"
		case f.Volume.Phase == disk.PhaseAvailable && f.Volume.Claimed:
			return "the volume is kept for a claim"
		case f.Volume.Policy == disk.Retain && f.Volume.Phase != disk.PhaseAvailable && !f.Volume.Deleting:
			return "the volume is its administrator's"
		case d.Do != loss.Bury && !f.Buried:
			return "there is no tombstone"
		case d.Do == loss.LetGo && (!f.Volume.Deleting || !f.Node.Away()):
			return "an agent may still deal with it"
		}
	case loss.Unmark:
		if lost {
			return "the volume is lost"
		}
	}
	return ""
}
