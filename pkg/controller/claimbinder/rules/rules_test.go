// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

func TestRequested(t *testing.T) {
	t.Parallel()
	others := []Annotation{{Key: "any"}, {Key: "one", Value: "yes"}}
	claim := func() *builders.PVC { return builders.MakePVC("c") }
	for name, tc := range map[string]struct {
		claim      *builders.PVC
		waits, now bool
	}{
		"no annotation":          {claim: claim()},
		"Now":                    {claim: claim().Annotation(wellknown.BindAnnotation, "Now"), waits: true, now: true},
		"another value":          {claim: claim().Annotation(wellknown.BindAnnotation, "now"), waits: true},
		"any value":              {claim: claim().Annotation("any", ""), waits: true, now: true},
		"one value":              {claim: claim().Annotation("one", "yes"), waits: true, now: true},
		"not that value":         {claim: claim().Annotation("one", "no")},
		"an invalid and another": {claim: claim().Annotation(wellknown.BindAnnotation, "x").Annotation("any", "y"), waits: true, now: true},
		"bound":                  {claim: claim().Annotation(wellknown.BindAnnotation, "Now").Bound("pv"), now: true},
		"being deleted":          {claim: claim().Annotation(wellknown.BindAnnotation, "Now").Deleting(), now: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := Requested(tc.claim.Obj(), others)
			if waits := Waits(tc.claim.Obj(), others); waits != tc.waits || now != tc.now {
				t.Errorf("waits %t, now %t; want %t, %t", waits, now, tc.waits, tc.now)
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	got := Invalid(builders.MakePVC("c").Annotation(wellknown.BindAnnotation, "now").Obj())
	if diff := cmp.Diff(`annotation stowage.dev/bind: "now" is not allowed: set it to Now, or remove it`, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestScheduling(t *testing.T) {
	t.Parallel()
	gated := builders.MakePod("p").Obj()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x/y"}}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"waits":      {builders.MakePod("p").Obj(), true},
		"runs":       {builders.MakePod("p").Node("n").Phase(corev1.PodRunning).Obj(), true},
		"gated":      {gated, false},
		"terminates": {builders.MakePod("p").Deleting().Obj(), false},
		"succeeded":  {builders.MakePod("p").Phase(corev1.PodSucceeded).Obj(), false},
		"failed":     {builders.MakePod("p").Phase(corev1.PodFailed).Obj(), false},
	} {
		if got := Scheduling(tc.pod); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestUnserved(t *testing.T) {
	t.Parallel()
	plain := builders.MakePVC("c").Request("10Gi").AccessModes(corev1.ReadWriteOnce)
	onNode := builders.MakePVC("c").Request("10Gi").AccessModes(corev1.ReadWriteOnce).Annotation(wellknown.BindNodeAnnotation, "n1")
	for want, tc := range map[string]struct {
		claim *builders.PVC
		why   match.Reason
		free  Stock
	}{
		`no free volume of StorageClass "local" serves the claim (10Gi, ReadWriteOnce): none is free. It is bound when a volume that fits is free`: {
			plain, match.Reason{Code: match.NoVolume}, Stock{}},
		`no free volume of StorageClass "local" on node "n1" serves the claim (10Gi, ReadWriteOnce): of 2 that are free, the largest has 5Gi. It is bound when a volume that fits is free`: {
			onNode, match.Reason{Code: match.NoVolume}, Stock{2, 5 << 30}},
		`no free volume of StorageClass "local" serves the claim (1Gi, ReadWriteMany, Block, a selector): none is free. It is bound when a volume that fits is free`: {
			builders.MakePVC("c").Request("1Gi").AccessModes(corev1.ReadWriteMany).Block().MatchLabel("a", "b"), match.Reason{Code: match.NoVolume}, Stock{}},
		`no node has enough free capacity of StorageClass "local" for 10Gi. It is provisioned when a node has`: {
			plain, match.Reason{Code: match.NotEnoughSpace}, Stock{}},
		`no node can be selected on node "n1": it must exist, be ready and not cordoned, run the driver, and be in allowedTopologies of StorageClass "local"`: {
			onNode, match.Reason{Code: match.TopologyNotAllowed}, Stock{}},
		`node "n1" does not exist: correct the annotation stowage.dev/bind-node, or remove it`: {
			onNode, match.Reason{Code: match.NodeConflict}, Stock{}},
		`its volume is being provisioned on the node of its selected-node, not on node "n1": correct the annotation stowage.dev/bind-node, or remove it`: {
			onNode, match.Reason{Code: match.NodeNotSelected}, Stock{}},
		`volume "pv" is reserved for the claim and does not fit it: remove the volume's claimRef, or create a claim that fits`: {
			plain, match.Reason{Code: match.ReservedVolumeMismatch, Volume: "pv"}, Stock{}},
		`volume "pv" is reserved for the claim, and its disk is not usable: the disk of a claim's persistent volume is missing`: {
			plain, match.Reason{Code: match.DiskMissing, Volume: "pv"}, Stock{}},
	} {
		if diff := cmp.Diff(want, Unserved(tc.claim.Obj(), "local", tc.why, tc.free)); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
	}
}
