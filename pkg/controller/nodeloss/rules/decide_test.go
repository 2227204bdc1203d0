// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 500, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// gone is a volume with a claim of a StatefulSet, whose node has been gone for ten
// minutes, and which is released after five.
func gone(change ...func(*rules.Facts)) *rules.Facts {
	f := &rules.Facts{
		Now:    now,
		Volume: disk.Volume{Phase: disk.PhaseBound, Policy: disk.Delete, Identity: "wwn:1", Claimed: true, ClaimUID: "claim", Finalized: true},
		Node:   rules.Gone, ReportedAt: ago(time.Hour), ProvisionerSince: ago(time.Hour),
		Mark:  &rules.Mark{Cause: rules.NodeGone, Since: ago(10 * time.Minute)},
		Claim: &rules.Claim{UID: "claim", Bound: true, Recreator: &rules.Recreator{UID: "set"}},
		Terms: rules.Terms{Release: true, Delay: 5 * time.Minute},
	}
	for _, c := range change {
		c(f)
	}
	return f
}

func begun(f *rules.Facts) { f.Release = &rules.BegunRelease{ClaimUID: "claim", At: ago(time.Second)} }
func begunLongAgo(f *rules.Facts) {
	f.Release = &rules.BegunRelease{ClaimUID: "claim", At: ago(rules.Leeway + time.Second)}
}
func deleting(f *rules.Facts) { f.Claim.Deleting = true }
func unclaimed(f *rules.Facts) {
	f.Claim, f.Volume.Phase = nil, disk.PhaseReleased
}

// provisioned is a volume of a PavProvisioner.
func provisioned(f *rules.Facts) {
	f.Provisioned, f.ProvisionerSince, f.ReportedAt = true, time.Time{}, time.Time{}
	f.Volume.Identity, f.Volume.Finalized = "", false
}

func missing(f *rules.Facts) {
	f.Node, f.Disk, f.Volume.Mark, f.Mark.Cause = rules.Ready, rules.DiskMissing, disk.MarkMissing, rules.MissingDisk
}

func pod(name string, change ...func(*rules.Pod)) func(*rules.Facts) {
	return func(f *rules.Facts) {
		p := rules.Pod{Name: name, UID: name, Placed: true, Controlled: true, Created: ago(time.Hour)}
		for _, c := range change {
			c(&p)
		}
		f.Pods = append(f.Pods, p)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type answer struct {
		Do    rules.Action
		State rules.State
		Pods  []string
	}
	for name, tc := range map[string]struct {
		facts *rules.Facts
		want  answer
	}{
		"a node that is there has lost nothing":                     {gone(func(f *rules.Facts) { f.Node, f.Mark = rules.Ready, nil }), answer{Do: rules.None}},
		"nor has one that is not ready":                             {gone(func(f *rules.Facts) { f.Node, f.Mark, f.Disk = rules.NotReady, nil, rules.DiskMissing }), answer{Do: rules.None}},
		"the moment is written down first":                          {gone(func(f *rules.Facts) { f.Mark = nil }), answer{Do: rules.MarkLost, State: rules.Waiting}},
		"a node that came back loses nothing":                       {gone(func(f *rules.Facts) { f.Node = rules.Ready }), answer{Do: rules.RemoveMark}},
		"not ready is back, too":                                    {gone(func(f *rules.Facts) { f.Node = rules.NotReady }), answer{Do: rules.RemoveMark}},
		"back before its claim was deleted":                         {gone(begun, func(f *rules.Facts) { f.Node = rules.Ready }), answer{Do: rules.RemoveMark}},
		"back, unobserved, and gone again: the delay begins again":  {gone(func(f *rules.Facts) { f.ReportedAt = ago(time.Minute) }), answer{Do: rules.MarkLost, State: rules.Waiting}},
		"a report from the future says nothing yet":                 {gone(func(f *rules.Facts) { f.ReportedAt = ago(-time.Minute) }), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a disk that was missing before its node went":              {gone(func(f *rules.Facts) { f.Mark.Cause = rules.MissingDisk }), answer{Do: rules.MarkLost, State: rules.Waiting}},
		"out of service, then gone: one loss":                       {gone(func(f *rules.Facts) { f.Mark.Cause = rules.NodeOutOfService }), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a mark from the future is none":                            {gone(func(f *rules.Facts) { f.Mark.Since = ago(-time.Minute) }), answer{Do: rules.MarkLost, State: rules.Waiting}},
		"the delay is not over":                                     {gone(func(f *rules.Facts) { f.Mark.Since = ago(5*time.Minute - 1) }), answer{State: rules.Waiting}},
		"the delay is over":                                         {gone(func(f *rules.Facts) { f.Mark.Since = ago(5 * time.Minute) }), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"kept by policy":                                            {gone(func(f *rules.Facts) { f.Terms.Release = false }), answer{State: rules.Kept}},
		"kept: an annotation is invalid":                            {gone(func(f *rules.Facts) { f.Terms.Problem = "bad" }), answer{State: rules.Invalid}},
		"nothing recreates it":                                      {gone(func(f *rules.Facts) { f.Claim.Recreator = nil }), answer{State: rules.NotRecreatable}},
		"the budget is spent":                                       {gone(func(f *rules.Facts) { f.Exhausted = true }), answer{State: rules.Throttled}},
		"a release within the leeway needs no budget":               {gone(begun, func(f *rules.Facts) { f.Exhausted = true }), answer{Do: rules.DeleteClaim, State: rules.Releasing}},
		"an older release needs budget again":                       {gone(begunLongAgo, func(f *rules.Facts) { f.Exhausted = true }), answer{State: rules.Throttled}},
		"and is written again":                                      {gone(begunLongAgo), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a release dated in the future, too":                        {gone(begun, func(f *rules.Facts) { f.Release.At = ago(-time.Minute) }), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a release of another claim does not count":                 {gone(begun, func(f *rules.Facts) { f.Release.ClaimUID = "old" }), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a user deletes the claim":                                  {gone(deleting), answer{State: rules.Blocked}},
		"a user deletes the claim, which pods use":                  {gone(deleting, pod("p")), answer{State: rules.Blocked}},
		"the claim is being deleted":                                {gone(begun, deleting), answer{State: rules.Releasing}},
		"the claim is bound elsewhere":                              {gone(func(f *rules.Facts) { f.Claim.Bound = false }), answer{State: rules.Blocked}},
		"the claim is being bound":                                  {gone(func(f *rules.Facts) { f.Volume.Phase = disk.PhaseAvailable }), answer{State: rules.Blocked}},
		"the pod of an ephemeral claim is being deleted":            {gone(func(f *rules.Facts) { f.Claim.Recreator.Leaving = true }), answer{State: rules.Blocked}},
		"pods stay until the claim is deleted":                      {gone(begun, pod("p")), answer{Do: rules.DeleteClaim, State: rules.Releasing}},
		"then pods with a controller are deleted":                   {gone(begun, deleting, pod("p"), pod("q", func(p *rules.Pod) { p.Controlled = false })), answer{rules.DeletePods, rules.Releasing, []string{"p"}}},
		"pending ones, too, when the claim is gone":                 {gone(begun, unclaimed, pod("p", func(p *rules.Pod) { p.Placed = false })), answer{rules.DeletePods, rules.Releasing, []string{"p"}}},
		"even if the node is back":                                  {gone(begun, unclaimed, pod("p"), func(f *rules.Facts) { f.Node = rules.Ready }), answer{rules.DeletePods, rules.Releasing, []string{"p"}}},
		"a later pod stays":                                         {gone(begun, unclaimed, pod("p", func(p *rules.Pod) { p.Created = now })), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"a provisioned volume's claim is released, too":             {gone(provisioned), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a provisioned volume is given up after its claim":          {gone(provisioned, begun, unclaimed), answer{Do: rules.DeletePavVolume, State: rules.Removing}},
		"a user deleted its claim, by terms that release":           {gone(provisioned, unclaimed), answer{Do: rules.DeletePavVolume, State: rules.Removing}},
		"a user deleted its claim, by terms that keep":              {gone(provisioned, unclaimed, func(f *rules.Facts) { f.Terms.Release = false }), answer{State: rules.Kept, Do: rules.None}},
		"a provisioned volume is given up after the delay":          {gone(provisioned, unclaimed, func(f *rules.Facts) { f.Mark.Since = ago(time.Minute) }), answer{State: rules.Waiting, Do: rules.None}},
		"a retained one is its administrator's":                     {gone(provisioned, begun, unclaimed, func(f *rules.Facts) { f.Volume.Policy = disk.Retain }), answer{State: rules.Retained, Do: rules.None}},
		"a deletion pod may run on the node that is out of service": {gone(provisioned, begun, unclaimed, func(f *rules.Facts) { f.Node, f.Mark.Cause = rules.OutOfService, rules.NodeOutOfService }), answer{State: rules.Blocked, Do: rules.None}},
		"a pod stays whose claim was recreated":                     {gone(begun, unclaimed, pod("p"), func(f *rules.Facts) { f.Successor = true }), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"a kubelet that is there ends its pods itself": {gone(begun, deleting, pod("p", func(p *rules.Pod) { p.Deleting = true }), func(f *rules.Facts) {
			f.Node, f.Disk, f.Volume.Mark, f.Mark.Cause = rules.Ready, rules.DiskMissing, disk.MarkMissing, rules.MissingDisk
		}), answer{State: rules.Releasing}},
		"one that is gone does not": {gone(begun, deleting, pod("p", func(p *rules.Pod) { p.Deleting = true })), answer{rules.DeletePods, rules.Releasing, []string{"p"}}},
		"a missing disk that a lone pod uses": {gone(pod("p", func(p *rules.Pod) { p.Controlled = false }), func(f *rules.Facts) {
			f.Node, f.Disk, f.Volume.Mark, f.Mark.Cause = rules.Ready, rules.DiskMissing, disk.MarkMissing, rules.MissingDisk
		}), answer{State: rules.NotRecreatable}},
		"a failing disk": {gone(func(f *rules.Facts) {
			f.Node, f.Disk, f.Volume.Mark, f.Mark.Cause = rules.Ready, rules.DiskFailing, disk.MarkFailing, rules.FailingDisk
		}), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a failing disk of a claim that is kept": {gone(func(f *rules.Facts) {
			f.Node, f.Disk, f.Volume.Mark, f.Mark.Cause, f.Terms.Release = rules.Ready, rules.DiskFailing, disk.MarkFailing, rules.FailingDisk, false
		}), answer{State: rules.Kept}},
		"a replaced disk": {gone(func(f *rules.Facts) {
			f.Node, f.Disk, f.Volume.Mark, f.Mark.Cause = rules.Ready, rules.DiskReplaced, disk.MarkReplaced, rules.MissingDisk
		}), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a missing disk, reported by a provisioner that does not run": {gone(begun, missing, func(f *rules.Facts) { f.ProvisionerSince = time.Time{} }), answer{Do: rules.RemoveMark}},
		"a missing disk, reported by a provisioner that just started": {gone(missing, func(f *rules.Facts) { f.ProvisionerSince = ago(time.Minute) }), answer{Do: rules.MarkLost, State: rules.Waiting}},
		"a missing disk, reported by a provisioner that ran before":   {gone(missing, func(f *rules.Facts) { f.ProvisionerSince = ago(10 * time.Minute) }), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a missing disk, without the volume's mark":                   {gone(begun, missing, func(f *rules.Facts) { f.Volume.Mark = disk.Unmarked }), answer{Do: rules.RemoveMark}},
		"a missing disk that may be there again":                      {gone(begun, missing, func(f *rules.Facts) { f.Volume.Mark = disk.MarkUnproven }), answer{Do: rules.RemoveMark}},
		"a missing disk of a volume without a claim":                  {gone(unclaimed, missing, func(f *rules.Facts) { f.Volume.Mark = disk.Unmarked }), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"a provisioner's start in the future does not count yet":      {gone(missing, func(f *rules.Facts) { f.ProvisionerSince = ago(-time.Minute) }), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"a node that is gone needs no provisioner":                    {gone(func(f *rules.Facts) { f.ProvisionerSince = time.Time{} }), answer{Do: rules.BeginRelease, State: rules.Releasing}},
		"released: the tombstone comes first":                         {gone(unclaimed), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"released under a policy to keep claims":                      {gone(unclaimed, func(f *rules.Facts) { f.Terms.Release = false }), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"then the volume":                                             {gone(unclaimed, func(f *rules.Facts) { f.HasTombstone = true }), answer{Do: rules.DeleteVolume, State: rules.Removing}},
		"then its finalizer":                                          {gone(unclaimed, func(f *rules.Facts) { f.HasTombstone, f.Volume.Deleting = true, true }), answer{Do: rules.RemoveFinalizer, State: rules.Removing}},
		"which the provisioner removes if there is one": {gone(unclaimed, func(f *rules.Facts) {
			f.HasTombstone, f.Volume.Deleting = true, true
			f.Node, f.Disk, f.Mark.Cause = rules.Ready, rules.DiskMissing, rules.MissingDisk
		}), answer{State: rules.Removing}},
		"deleted by hand, with its tombstone removed":    {gone(unclaimed, func(f *rules.Facts) { f.Volume.Deleting = true }), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"the claim is gone, and the volume not released": {gone(func(f *rules.Facts) { f.Claim = nil }), answer{State: rules.Blocked}},
		"kept by hand for a claim that is not there":     {gone(func(f *rules.Facts) { f.Claim, f.Volume.Phase = nil, disk.PhaseAvailable }), answer{State: rules.Blocked}},
		"unclaimed": {gone(func(f *rules.Facts) { f.Claim, f.Volume.Phase, f.Volume.Claimed = nil, disk.PhaseAvailable, false }), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"unclaimed, of policy Retain": {gone(func(f *rules.Facts) {
			f.Claim, f.Volume.Phase, f.Volume.Claimed, f.Volume.Policy = nil, disk.PhaseAvailable, false, disk.Retain
		}), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"of policy Retain": {gone(unclaimed, func(f *rules.Facts) { f.Volume.Policy = disk.Retain }), answer{State: rules.Retained}},
		"of policy Retain, deleted by its administrator": {gone(unclaimed, func(f *rules.Facts) { f.Volume.Policy, f.Volume.Deleting = disk.Retain, true }), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"failed": {gone(unclaimed, func(f *rules.Facts) { f.Volume.Phase = disk.PhaseOfFailed }), answer{State: rules.Blocked}},
		"failed, and deleted by its administrator":    {gone(unclaimed, func(f *rules.Facts) { f.Volume.Phase, f.Volume.Deleting = disk.PhaseOfFailed, true }), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"it has no disk identity":                     {gone(unclaimed, func(f *rules.Facts) { f.Volume.Identity = "" }), answer{State: rules.Unidentified}},
		"another node has a disk of that identity":    {gone(unclaimed, func(f *rules.Facts) { f.OtherUse = "b" }), answer{State: rules.Unidentified}},
		"another node has its disk since then":        {gone(unclaimed, func(f *rules.Facts) { f.OtherUse, f.HasTombstone = "b", true }), answer{Do: rules.DeleteVolume, State: rules.Removing}},
		"nor once more, when the claim is released":   {gone(unclaimed, begun, func(f *rules.Facts) { f.Terms.Delay = time.Hour }), answer{Do: rules.AddTombstone, State: rules.Removing}},
		"nothing is removed before the delay is over": {gone(unclaimed, func(f *rules.Facts) { f.Mark.Since = ago(time.Minute) }), answer{State: rules.Waiting}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := rules.Decide(tc.facts)
			got := answer{Do: d.Do, State: d.State}
			for _, p := range d.Pods {
				got.Pods = append(got.Pods, p.Name)
			}
			if tc.want.Do == "" {
				tc.want.Do = rules.None
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBlockedBy: a blocked volume names what it waits for, unless that takes only a moment.
func TestBlockedBy(t *testing.T) {
	t.Parallel()
	kept := func(f *rules.Facts) { f.Claim, f.Volume.Phase = nil, disk.PhaseAvailable }
	leaving := func(f *rules.Facts) {
		f.Claim.Recreator = &rules.Recreator{Name: "cache-0", UID: "p", ByPod: true, Leaving: true}
	}
	for name, tc := range map[string]struct {
		facts *rules.Facts
		state rules.State
		want  string // empty: no message
	}{
		"reserved by hand":                    {gone(kept, func(f *rules.Facts) { f.Volume.ClaimUID = "" }), rules.Blocked, "claimRef"},
		"it is being bound":                   {gone(kept), rules.Blocked, ""},
		"its claim was just deleted":          {gone(func(f *rules.Facts) { f.Claim = nil }), rules.Blocked, ""},
		"its phase is Failed":                 {gone(unclaimed, func(f *rules.Facts) { f.Volume.Phase = disk.PhaseOfFailed }), rules.Blocked, "administrator"},
		"a user deleted its claim":            {gone(deleting), rules.Blocked, "a user requested"},
		"its claim is bound to another":       {gone(func(f *rules.Facts) { f.Claim.Bound = false }), rules.Blocked, "PersistentVolume controller"},
		"its claim is deleted with a pod":     {gone(leaving), rules.Blocked, "pod cache-0"},
		"with a pod that this controller has": {gone(leaving, begun), rules.Releasing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := rules.Decide(tc.facts)
			if d.State != tc.state || !strings.Contains(d.Message, tc.want) || tc.want == "" && d.Message != "" {
				t.Errorf("%s, and waits %q; want %s, %q", d.State, d.Message, tc.state, tc.want)
			}
		})
	}
}

func TestTerms(t *testing.T) {
	t.Parallel()
	defaults := rules.Terms{Delay: 5 * time.Minute}
	ask := func(object string, pairs ...string) rules.Annotated {
		a := rules.Annotated{Object: object, Annotations: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			a.Annotations[pairs[i]] = pairs[i+1]
		}
		return a
	}
	const policy, delay = wellknown.NodeLossAnnotation, wellknown.NodeLossDelayAnnotation
	for name, tc := range map[string]struct {
		class, claim rules.Annotated
		want         rules.Terms
	}{
		"without annotations":             {want: defaults},
		"the class does":                  {class: ask("class", policy, "Release", delay, "1h"), want: rules.Terms{Release: true, Delay: time.Hour}},
		"the claim wins":                  {class: ask("class", policy, "Release", delay, "1h"), claim: ask("claim", policy, "Keep", delay, "1s"), want: rules.Terms{Delay: time.Second}},
		"each of the two for itself":      {class: ask("class", policy, "Release"), claim: ask("claim", delay, "2m"), want: rules.Terms{Release: true, Delay: 2 * time.Minute}},
		"a word that is not known":        {class: ask("class fast", policy, "release"), want: rules.Terms{Delay: rules.MaxDelay, Problem: `class fast has stowage.dev/node-loss="release", allowed is Keep or Release`}},
		"no duration":                     {claim: ask("claim x", policy, "Release", delay, "5"), want: rules.Terms{Release: false, Delay: rules.MaxDelay, Problem: `claim x has stowage.dev/node-loss-delay="5", allowed is a duration of 1s to 8760h0m0s, such as 5m`}},
		"too short":                       {claim: ask("claim x", delay, "0s"), want: rules.Terms{Delay: rules.MaxDelay, Problem: `claim x has stowage.dev/node-loss-delay="0s", allowed is a duration of 1s to 8760h0m0s, such as 5m`}},
		"the claim does not mend a class": {class: ask("class", policy, "x"), claim: ask("claim", policy, "Release"), want: rules.Terms{Delay: rules.MaxDelay, Problem: `class has stowage.dev/node-loss="x", allowed is Keep or Release`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, rules.TermsOf(defaults, tc.class, tc.claim)); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecreatable: the annotation of a claim.
func TestRecreatable(t *testing.T) {
	t.Parallel()
	said := func(value string) map[string]string {
		return map[string]string{wellknown.NodeLossRecreatableAnnotation: value}
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		yes         bool
		obstacle    string
	}{
		"nothing":             {annotations: map[string]string{wellknown.NodeLossAnnotation: "Release"}},
		"yes":                 {annotations: said("true"), yes: true},
		"no":                  {annotations: said("false"), obstacle: "is false"},
		"yes, in other words": {annotations: said("True"), obstacle: `has stowage.dev/node-loss-recreatable="True", allowed is true or false`},
		"nothing, with a key": {annotations: said(""), obstacle: `="", allowed is`},
		"much":                {annotations: said(strings.Repeat("é", 1000)), obstacle: `é…", allowed is`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yes, obstacle := rules.Recreatable(tc.annotations)
			if yes != tc.yes || (obstacle == "") != (tc.obstacle == "") || !strings.Contains(obstacle, tc.obstacle) {
				t.Errorf("%t, %q; want %t, %q", yes, obstacle, tc.yes, tc.obstacle)
			}
		})
	}
}

// TestAfterRelease: the result of a release is computed without a change of the facts.
func TestAfterRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		facts *rules.Facts
		pods  []string
		state rules.State
		says  string
	}{
		"the volume is removed":                        {facts: gone(), state: rules.Removing},
		"with the pods that are made again":            {facts: gone(pod("a"), pod("b", func(p *rules.Pod) { p.Controlled = false })), pods: []string{"a"}, state: rules.Removing},
		"not with those that end by themselves":        {facts: gone(missing, pod("a", func(p *rules.Pod) { p.Deleting = true })), state: rules.Removing},
		"the volume stays by its policy":               {facts: gone(func(f *rules.Facts) { f.Volume.Policy = disk.Retain }), state: rules.Retained},
		"the volume stays without an identity":         {facts: gone(func(f *rules.Facts) { f.Volume.Identity = "" }), state: rules.Unidentified},
		"the volume stays as its disk is elsewhere":    {facts: gone(func(f *rules.Facts) { f.OtherUse = "node b has it" }), state: rules.Unidentified, says: "node b has it"},
		"also if the release waits for the budget yet": {facts: gone(func(f *rules.Facts) { f.Exhausted = true }), state: rules.Removing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := *tc.facts
			claim := *tc.facts.Claim
			pods, then := rules.AfterRelease(tc.facts)
			var names []string
			for _, p := range pods {
				names = append(names, p.Name)
			}
			if diff := cmp.Diff(tc.pods, names); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if then.State != tc.state || then.Message != tc.says {
				t.Errorf("%s %q, want %s %q", then.State, then.Message, tc.state, tc.says)
			}
			if diff := cmp.Diff(before, *tc.facts); diff != "" || claim != *tc.facts.Claim {
				t.Errorf("the facts were changed: %s", diff)
			}
		})
	}
}

// TestAnnotationsRoundTrip: annotations are read as they were written, to the nanosecond.
func TestAnnotationsRoundTrip(t *testing.T) {
	t.Parallel()
	mark := rules.Mark{Cause: rules.NodeGone, Since: now}
	if diff := cmp.Diff(&mark, rules.ReadMark(mark.String())); diff != "" {
		t.Errorf("mark (-want +got):\n%s", diff)
	}
	release := rules.BegunRelease{ClaimUID: "c", At: now}
	if diff := cmp.Diff(&release, rules.ReadRelease(release.String())); diff != "" {
		t.Errorf("release (-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "NodeGone", "NodeGone yesterday", " 2026-11-22T12:00:00Z", "2026-11-22T12:00:00Z"} {
		if rules.ReadMark(text) != nil || rules.ReadRelease(text) != nil {
			t.Errorf("%q was decode", text)
		}
	}
}

// TestBudget: a release counts for the minute in which its claim may have been deleted.
func TestBudget(t *testing.T) {
	t.Parallel()
	releases := map[string]time.Time{"a": ago(70 * time.Second), "b": ago(40 * time.Second), "c": ago(10 * time.Second)}
	if got := rules.Spent(releases, now); got != 2 {
		t.Errorf("%d releases are in the window, want 2", got)
	}
	for limit, want := range map[int]time.Duration{3: 0, 2: 30 * time.Second, 1: 60 * time.Second} {
		if got := rules.AvailableAt(releases, limit, now).Sub(now); got != want {
			t.Errorf("with a limit of %d there is budget in %s, want %s", limit, got, want)
		}
	}
}

// TestBudgetOfFutureReleases: a release dated in the future does not block others forever.
func TestBudgetOfFutureReleases(t *testing.T) {
	t.Parallel()
	never := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	releases := map[string]time.Time{"a": never, "b": never.Add(-time.Hour), "c": ago(-time.Minute), "d": ago(-10 * time.Second)}
	if got := rules.Spent(releases, now); got != 1 {
		t.Errorf("%d releases are in the window, want the one of a clock that is ahead", got)
	}
	for limit, want := range map[int]time.Duration{2: 0, 1: 80 * time.Second} {
		if got := rules.AvailableAt(releases, limit, now).Sub(now); got != want {
			t.Errorf("with a limit of %d there is budget in %s, want %s", limit, got, want)
		}
	}
}

// TestBudgetSurvivesCrashes: controllers that crash between the writes, at random moments, delete no
// more claims in a minute than the budget allows.
func TestBudgetSurvivesCrashes(t *testing.T) {
	t.Parallel()
	// claims are existing claims with their recreators.
	const claims, limit = 60, 5
	random := rand.New(rand.NewPCG(1, 2))
	written, due := map[string]time.Time{}, map[string]bool{} // what volumes say; claims that are there
	for i := range claims {
		due[strconv.Itoa(i)] = true
	}
	var deleted []time.Time
	for at := now; len(due) > 0; at = at.Add(time.Duration(random.Int64N(int64(2 * time.Second)))) {
		if at.Sub(now) > time.Hour {
			t.Fatalf("%d claims are left after an hour", len(due))
		}
		name := strconv.Itoa(random.IntN(claims))
		if !due[name] {
			continue
		}
		others := maps.Clone(written)
		delete(others, name)
		f := gone(func(f *rules.Facts) { f.Now, f.Exhausted = at, rules.Spent(others, at) >= limit })
		if began, ok := written[name]; ok {
			f.Release = &rules.BegunRelease{ClaimUID: "claim", At: began}
		}
		switch d := rules.Decide(f); d.Do {
		case rules.BeginRelease:
			if written[name] = at; random.IntN(3) == 0 {
				continue // it dies
			}
			fallthrough
		case rules.DeleteClaim:
			delete(due, name)
			deleted = append(deleted, at)
		}
	}
	for i := limit; i < len(deleted); i++ {
		if in := deleted[i].Sub(deleted[i-limit]); in <= rules.Window {
			t.Errorf("%d claims were deleted within %s", limit+1, in)
		}
	}
}

func TestResolved(t *testing.T) {
	t.Parallel()
	tombstone := stowage.Tombstone{Identity: "wwn:1", VolumeUID: "old", Since: new(metav1.NewTime(ago(time.Hour)))}
	later := rules.PublishedVolume{Identity: "wwn:1", UID: "new", Created: ago(time.Minute), Shown: true}
	for name, tc := range map[string]struct {
		change func(*rules.PublishedVolume)
		want   bool
	}{
		"cleaned and published again":             {func(*rules.PublishedVolume) {}, true},
		"published, but not reported by its node": {func(v *rules.PublishedVolume) { v.Shown = false }, false},
		"another disk":                            {func(v *rules.PublishedVolume) { v.Identity = "wwn:2" }, false},
		"from before":                             {func(v *rules.PublishedVolume) { v.Created = ago(2 * time.Hour) }, false},
		"published, but reported by another node": {func(v *rules.PublishedVolume) { v.OnOtherNode = true }, false},
		"published again, and deleted":            {func(v *rules.PublishedVolume) { v.Deleting = true }, true},
		"published again, and lost":               {func(v *rules.PublishedVolume) { v.Lost = true }, true},
		"the same volume, not lost":               {func(v *rules.PublishedVolume) { v.UID, v.Created = "old", ago(9*time.Hour) }, true},
		"the same volume, still lost":             {func(v *rules.PublishedVolume) { v.UID, v.Lost = "old", true }, false},
		"the same volume, being deleted":          {func(v *rules.PublishedVolume) { v.UID, v.Deleting = "old", true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := later
			tc.change(&v)
			if got := rules.Resolved(tombstone, []rules.PublishedVolume{v}); got != tc.want {
				t.Errorf("settled is %t, want %t", got, tc.want)
			}
			kept := tombstone
			kept.State = stowage.TombstoneRetained
			if got, want := rules.Resolved(kept, []rules.PublishedVolume{v}), tc.want && v.UID == "old"; got != want {
				t.Errorf("of retained data: settled is %t, want %t", got, want)
			}
		})
	}
}
