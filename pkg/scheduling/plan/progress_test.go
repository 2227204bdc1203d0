// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

func ours() *builders.PV {
	return volume().ClaimRef("default", "data", "claim-uid").BoundByController()
}

func TestBindingProgress(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		preBound bool
		reserved v1.PersistentVolumePhase // Available
		volume   *builders.PV
		claim    *builders.PVC
		want     plan.State
		why      plan.FailureCode
	}{
		"claimRef written":                                   {volume: ours(), claim: claim(), want: plan.Claimed},
		"claimed before a PV controller observed it":         {volume: ours().Phase(v1.VolumePending), claim: claim(), want: plan.Unseen},
		"claimed and without any phase":                      {volume: ours().Phase(""), claim: claim(), want: plan.Unseen},
		"pre-bound: the PV controller may have no UID":       {preBound: true, volume: ours(), claim: claim(), want: plan.Unseen},
		"pre-bound: the PV controller has observed it":       {preBound: true, volume: ours().Phase(v1.VolumeBound), claim: claim(), want: plan.Claimed},
		"pre-bound: its phase was Bound before":              {preBound: true, reserved: v1.VolumeBound, volume: ours().Phase(v1.VolumeBound), claim: claim(), want: plan.Unseen},
		"pre-bound, another pod wrote the UID":               {volume: volume().ClaimRef("default", "data", "claim-uid"), claim: claim(), want: plan.Unseen},
		"undone: the PV controller may have the other claim": {volume: ours().Annotation(wellknown.BindingUndoneAnnotation, "other-uid"), claim: claim(), want: plan.Unseen},
		"undone: the PV controller has observed it":          {volume: ours().Annotation(wellknown.BindingUndoneAnnotation, "other-uid").Phase(v1.VolumeBound), claim: claim(), want: plan.Claimed},
		"undone by the same claim":                           {volume: ours().Annotation(wellknown.BindingUndoneAnnotation, "claim-uid"), claim: claim(), want: plan.Claimed},
		"claim written":                                      {volume: ours(), claim: claim().VolumeName("pv").BindCompleted(), want: plan.ClaimBound},
		"volume status open: no pod waits for it":            {volume: ours(), claim: claim().Bound("pv"), want: plan.Bound},
		"all written":                  {volume: ours().Phase(v1.VolumeBound), claim: claim().Bound("pv"), want: plan.Bound},
		"marked Lost by mistake":       {volume: ours(), claim: claim().VolumeName("pv").BindCompleted().Phase(v1.ClaimLost), want: plan.ClaimBound},
		"bound, claim being deleted":   {volume: ours().Phase(v1.VolumeBound), claim: claim().Bound("pv").Deleting(), want: plan.Bound},
		"claim deleted":                {volume: ours(), why: plan.ClaimGone},
		"claim deleted and recreated":  {volume: ours(), claim: claim().UID("new"), why: plan.ClaimReplaced},
		"claim being deleted":          {volume: ours(), claim: claim().Deleting(), why: plan.ClaimDeleting},
		"claim lost":                   {volume: ours(), claim: claim().Phase(v1.ClaimLost), why: plan.ClaimLost},
		"claim bound elsewhere":        {volume: ours(), claim: claim().Bound("pv-2"), why: plan.ClaimBoundElsewhere},
		"volume deleted":               {claim: claim(), why: plan.VolumeGone},
		"volume deleted and recreated": {volume: ours().UID("new"), claim: claim(), why: plan.VolumeReplaced},
		"volume being deleted":         {volume: ours().Deleting(), claim: claim(), why: plan.VolumeDeleting},
		"claimRef reset":               {volume: volume(), claim: claim(), why: plan.ClaimRefReset},
		"claimRef's UID reset":         {volume: volume().ClaimRef("default", "data", ""), claim: claim(), why: plan.ClaimRefReset},
		"claimed by another":           {volume: volume().ClaimRef("x", "y", "z"), claim: claim(), why: plan.VolumeClaimed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := plan.Binding{Claim: claim().Obj(), Volume: volume().Obj()}
			if tc.preBound {
				b.Volume = volume().ClaimRef("default", "data", "").Phase(tc.reserved).Obj()
			}
			state, why := b.Progress(pv(tc.volume), pvc(tc.claim))
			if code(why) != tc.why || why == nil && state != tc.want {
				t.Errorf("got %v, %v; want %v, %q", state, why, tc.want, tc.why)
			}
		})
	}
}

func TestProvisionProgress(t *testing.T) {
	t.Parallel()
	asked := func() *builders.PVC { return claim().SelectedNode("n1") }
	tests := map[string]struct {
		volume *builders.PV
		claim  *builders.PVC
		want   plan.State
		why    plan.FailureCode
	}{
		"requested": {claim: asked(), want: plan.Requested},
		"made, not observed by the PV controller": {volume: ours().Phase(v1.VolumePending), claim: asked(), want: plan.Unseen},
		"made, observed by the PV controller":     {volume: ours().Phase(v1.VolumeBound), claim: asked(), want: plan.Claimed},
		"the volume of a former claim":            {volume: volume().ClaimRef("default", "data", "old").Phase(v1.VolumeReleased), claim: asked(), want: plan.Requested},
		"made, but being deleted":                 {volume: ours().Deleting(), claim: asked(), want: plan.Requested},
		"bound":                                   {volume: ours().Phase(v1.VolumeBound), claim: asked().Bound("pv"), want: plan.Bound},
		"bound, selected-node does not matter":    {volume: ours().Phase(v1.VolumeBound), claim: claim().Bound("pv"), want: plan.Bound},
		"bound, the volume is not observed":       {claim: asked().Bound("pv"), want: plan.Unseen},
		"bound and lost":                          {claim: asked().Bound("pv").Phase(v1.ClaimLost), why: plan.ClaimLost},
		"bound to another claim's volume":         {volume: volume().ClaimRef("x", "y", "z"), claim: asked().Bound("pv"), why: plan.VolumeClaimed},
		"rejected by the provisioner":             {claim: claim(), why: plan.ProvisioningFailed},
		"another node selected":                   {claim: claim().SelectedNode("n2"), why: plan.SelectedElsewhere},
		"lost":                                    {claim: asked().Phase(v1.ClaimLost), why: plan.ClaimLost},
		"being deleted":                           {claim: asked().Deleting(), why: plan.ClaimDeleting},
		"deleted":                                 {why: plan.ClaimGone},
		"deleted and recreated":                   {claim: asked().UID("new"), why: plan.ClaimReplaced},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan.Provision{Claim: claim().Obj(), Provisioner: "csi"}
			state, why := p.Progress("n1", pvc(tc.claim), pv(tc.volume))
			if code(why) != tc.why || why == nil && state != tc.want {
				t.Errorf("got %v, %v; want %v, %q", state, why, tc.want, tc.why)
			}
		})
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	for want, p := range map[bool]*plan.Plan{
		true:  {Node: "n1"},
		false: {Provisions: []plan.Provision{{}}},
	} {
		if p.Empty() != want {
			t.Errorf("Empty() = %t for %+v", !want, p)
		}
	}
	if (&plan.Plan{Bindings: []plan.Binding{{}}}).Empty() {
		t.Error("a plan with a binding is empty")
	}
}

func pv(b *builders.PV) *v1.PersistentVolume {
	if b == nil {
		return nil
	}
	return b.Obj()
}

func pvc(b *builders.PVC) *v1.PersistentVolumeClaim {
	if b == nil {
		return nil
	}
	return b.Obj()
}
