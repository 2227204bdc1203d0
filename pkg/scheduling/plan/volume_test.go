// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

func claim() *builders.PVC {
	return builders.MakePVC("data").UID("claim-uid").ResourceVersion("7").Class("local")
}

func volume() *builders.PV {
	return builders.MakePV("pv").UID("volume-uid").ResourceVersion("3").Class("local").Hostname("n1")
}

// code is the failure's code, empty for success.
func code(f *plan.Failure) plan.FailureCode {
	if f == nil {
		return ""
	}
	return f.Code
}

// TestClaimVolumeIsWhatThePVControllerWrites compares field by field with
// GetBindVolumeToClaim, by which the PV controller decides what it writes.
func TestClaimVolumeIsWhatThePVControllerWrites(t *testing.T) {
	t.Parallel()
	tests := map[string]*v1.PersistentVolume{
		"free":                              volume().Obj(),
		"free, with a left-over annotation": volume().BoundByController().Obj(),
		"free, empty left-over annotation":  volume().Annotation(plan.AnnBoundByController, "").Obj(),
		"pre-bound by its owner":            volume().ClaimRef("default", "data", "").Obj(),
		"bound already":                     volume().ClaimRef("default", "data", "claim-uid").BoundByController().Phase(v1.VolumeBound).Obj(),
		"made for the claim, no annotation": volume().ClaimRef("default", "data", "claim-uid").Phase(v1.VolumePending).Obj(),
	}
	for name, live := range tests {
		for _, pvc := range []*v1.PersistentVolumeClaim{claim().Obj(), withoutType(claim().Obj())} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				before := live.DeepCopy()
				want, wantWrite, err := storagehelpers.GetBindVolumeToClaim(live, pvc)
				if err != nil {
					t.Fatal(err)
				}
				got, write, why := plan.Binding{Claim: pvc, Volume: live}.ClaimVolume(live)
				if why != nil {
					t.Fatal(why)
				}
				if write != wantWrite {
					t.Errorf("write = %t, the PV controller has %t", write, wantWrite)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("differs from the PV controller's (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(before, live); diff != "" {
					t.Errorf("the argument was changed:\n%s", diff)
				}
			})
		}
	}
}

// withoutType is an object as the typed client returns it.
func withoutType(pvc *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	pvc.Kind, pvc.APIVersion = "", ""
	return pvc
}

func TestClaimVolumeAfterAConflict(t *testing.T) {
	t.Parallel()
	preBound := volume().ClaimRef("default", "data", "")
	partlyBound := volume().ClaimRef("default", "data", "claim-uid").BoundByController()
	tests := map[string]struct {
		claim    *builders.PVC
		reserved *builders.PV
		live     *builders.PV // nil: not found
		write    bool
		want     plan.FailureCode
	}{
		"a label was added: written again":                  {live: volume().ResourceVersion("4").Label("disk", "ssd"), write: true},
		"an annotation was added: written again":            {live: volume().ResourceVersion("4").Annotation("x", "y"), write: true},
		"already bound to our claim: done":                  {live: volume().ResourceVersion("4").ClaimRef("default", "data", "claim-uid")},
		"the owner pre-bound it to our claim: choose again": {live: volume().ResourceVersion("4").ClaimRef("default", "data", ""), want: plan.VolumeChanged},
		"another claim has it":                              {live: volume().ResourceVersion("4").ClaimRef("other", "db", "u"), want: plan.VolumeClaimed},
		"a former claim of our name has it":                 {live: volume().ResourceVersion("4").ClaimRef("default", "data", "old-uid"), want: plan.VolumeClaimed},
		"the owner pre-bound it to another claim":           {live: volume().ResourceVersion("4").ClaimRef("other", "db", ""), want: plan.VolumeClaimed},
		"deleted":                               {want: plan.VolumeGone},
		"deleted and recreated":                 {live: volume().UID("new").ResourceVersion("4"), want: plan.VolumeReplaced},
		"being deleted":                         {live: volume().ResourceVersion("4").Deleting(), want: plan.VolumeDeleting},
		"bound to our claim, but being deleted": {live: volume().ResourceVersion("4").ClaimRef("default", "data", "claim-uid").Deleting(), want: plan.VolumeDeleting},
		"released":                              {live: volume().ResourceVersion("4").Phase(v1.VolumeReleased), want: plan.VolumeUnavailable},
		"moved to another node":                 {live: volume().ResourceVersion("4").Hostname("n2"), want: plan.VolumeChanged},
		"shrunk":                                {live: volume().ResourceVersion("4").Capacity("1Mi"), want: plan.VolumeChanged},
		"its disk is missing":                   {live: volume().ResourceVersion("4").Annotation("stowage.dev/disk", "Missing"), want: plan.VolumeChanged},
		"another claim undid its binding meanwhile":    {live: volume().ResourceVersion("4").Annotation(wellknown.BindingUndoneAnnotation, "other-uid"), write: true},
		"another class set by annotation":              {live: volume().ResourceVersion("4").BetaClass("slow"), want: plan.VolumeChanged},
		"selected label removed":                       {claim: claim().MatchLabel("disk", "ssd"), reserved: volume().Label("disk", "ssd"), live: volume().ResourceVersion("4"), want: plan.VolumeChanged},
		"selected label present, another added":        {claim: claim().MatchLabel("disk", "ssd"), reserved: volume().Label("disk", "ssd"), live: volume().ResourceVersion("4").Label("disk", "ssd").Label("a", "b"), write: true},
		"pre-bound and updated: written again":         {reserved: preBound, live: volume().ResourceVersion("4").ClaimRef("default", "data", "").Label("a", "b"), write: true},
		"pre-bound, the phase is ignored":              {reserved: preBound, live: volume().ResourceVersion("4").ClaimRef("default", "data", "").Phase(v1.VolumePending), write: true},
		"pre-binding removed: choose again":            {reserved: preBound, live: volume().ResourceVersion("4"), want: plan.VolumeChanged},
		"partly bound, and undone since: choose again": {reserved: partlyBound, live: volume().ResourceVersion("4"), want: plan.ClaimRefReset},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := plan.Binding{Claim: claim().Obj(), Volume: volume().Obj()}
			if tc.claim != nil {
				b.Claim = tc.claim.Obj()
			}
			if tc.reserved != nil {
				b.Volume = tc.reserved.Obj()
			}
			var live *v1.PersistentVolume
			if tc.live != nil {
				live = tc.live.Obj()
			}
			got, write, why := b.ClaimVolume(live)
			if code(why) != tc.want || write != tc.write {
				t.Fatalf("got write %t, failure %v; want write %t, failure %q", write, why, tc.write, tc.want)
			}
			if write && got.ResourceVersion != live.ResourceVersion {
				t.Errorf("to be written on version %s, want %s", got.ResourceVersion, live.ResourceVersion)
			}
		})
	}
}

// TestRestoreClaimRef: the volume of a bound claim gets its claimRef again in any phase, unless it is
// another claim's.
func TestRestoreClaimRef(t *testing.T) {
	t.Parallel()
	restored := volume().ClaimRef("default", "data", "claim-uid").Change(func(v *v1.PersistentVolume) { v.Spec.ClaimRef.ResourceVersion = "7" })
	tests := map[string]struct {
		live *builders.PV
		want *builders.PV // nil: nothing to write
		why  plan.FailureCode
	}{
		"removed":                         {live: volume().BoundByController().Phase(v1.VolumeBound), want: restored.BoundByController().Phase(v1.VolumeBound)},
		"the claim's":                     {live: volume().ClaimRef("default", "data", "claim-uid")},
		"another claim's":                 {live: volume().ClaimRef("default", "other", ""), why: plan.VolumeClaimed},
		"a former claim's of this name":   {live: volume().ClaimRef("default", "data", "old-uid"), why: plan.VolumeClaimed},
		"deleted":                         {why: plan.VolumeGone},
		"another volume of the same name": {live: volume().UID("new"), why: plan.VolumeReplaced},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var live *v1.PersistentVolume
			if tc.live != nil {
				live = tc.live.Obj()
			}
			got, write, why := plan.Binding{Claim: claim().Obj(), Volume: volume().Obj()}.RestoreClaimRef(live)
			if code(why) != tc.why || write != (tc.want != nil) {
				t.Fatalf("got write %t, failure %v; want write %t, failure %q", write, why, tc.want != nil, tc.why)
			}
			if write {
				if diff := cmp.Diff(tc.want.Obj(), got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
	t.Run("the UID was removed", func(t *testing.T) {
		t.Parallel()
		got, write, why := plan.Binding{Claim: claim().Obj(), Volume: volume().Obj()}.RestoreClaimRef(volume().ClaimRef("default", "data", "").Obj())
		if why != nil || !write || got.Spec.ClaimRef.UID != "claim-uid" || got.Annotations[plan.AnnBoundByController] != "" {
			t.Errorf("got %+v, write %t, failure %v", got, write, why)
		}
	})
}

func TestUnclaimVolumeRestores(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reserved *builders.PV
		phase    v1.PersistentVolumePhase
		keep     bool
	}{
		"free":                                           {reserved: volume(), phase: v1.VolumeAvailable},
		"free, other annotations stay":                   {reserved: volume().Annotation("a", "b"), phase: v1.VolumeAvailable},
		"free, with a left-over annotation":              {reserved: volume().BoundByController(), phase: v1.VolumeAvailable},
		"pre-bound by its owner":                         {reserved: volume().ClaimRef("default", "data", ""), phase: v1.VolumeAvailable},
		"Bound: another writer may rely on the claimRef": {reserved: volume().ClaimRef("default", "data", ""), phase: v1.VolumeBound, keep: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := plan.Binding{Claim: claim().Obj(), Volume: tc.reserved.Phase(tc.phase).Obj()}
			written, _, why := b.ClaimVolume(b.Volume)
			if why != nil {
				t.Fatal(why)
			}
			written.ResourceVersion = "9"
			got, ok := b.UnclaimVolume(written)
			if ok == tc.keep {
				t.Fatalf("ok = %t", ok)
			}
			if !ok {
				return
			}
			want := b.Volume.DeepCopy()
			want.ResourceVersion = "9"
			metav1.SetMetaDataAnnotation(&want.ObjectMeta, wellknown.BindingUndoneAnnotation, "claim-uid")
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("not what was reserved (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUndoneMark: the annotation for an undone binding stays on the volume until the next
// binding is complete, and names the claim unless there were several.
func TestUndoneMark(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		was, by string
		another bool // undone by another claim than ours
	}{
		"by this claim":             {by: "claim-uid"},
		"by this claim again":       {was: "claim-uid", by: "claim-uid"},
		"by another":                {by: "other-uid", another: true},
		"by another and by this":    {was: "other-uid", by: "claim-uid", another: true},
		"by an older version":       {was: "yes", by: "claim-uid", another: true},
		"by several, this one last": {was: "several claims", by: "claim-uid", another: true},
		"by this and by another":    {was: "claim-uid", by: "other-uid", another: true},
		"by another, twice later":   {was: "other-uid", by: "other-uid", another: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reserved := volume().Phase(v1.VolumeAvailable)
			if tc.was != "" {
				reserved.Annotation(wellknown.BindingUndoneAnnotation, tc.was)
			}
			before := plan.Binding{Claim: claim().UID(tc.by).Obj(), Volume: reserved.Obj()}
			claimed, _, why := before.ClaimVolume(before.Volume)
			if why != nil {
				t.Fatal(why)
			}
			back, ok := before.UnclaimVolume(claimed)
			if !ok {
				t.Fatal("the binding cannot be undone")
			}
			b := plan.Binding{Claim: claim().Obj(), Volume: back}
			next, _, why := b.ClaimVolume(back)
			if why != nil {
				t.Fatal(why)
			}
			if b.UndoneByOther(next) != tc.another || b.AwaitsPVController(next) != tc.another {
				t.Errorf("mark %q: undone by another %t, awaits the PV controller %t; want %t", next.Annotations[wellknown.BindingUndoneAnnotation], b.UndoneByOther(next), b.AwaitsPVController(next), tc.another)
			}
			unmarked, write, why := b.RemoveUndoneMark(next)
			if _, marked := unmarked.Annotations[wellknown.BindingUndoneAnnotation]; marked || !write || why != nil {
				t.Errorf("the annotation %q stays: write %t, %v", unmarked.Annotations[wellknown.BindingUndoneAnnotation], write, why)
			}
		})
	}
}

func TestVolumeBound(t *testing.T) {
	t.Parallel()
	ours := volume().ClaimRef("default", "data", "claim-uid")
	tests := map[string]struct {
		live  *v1.PersistentVolume
		write bool
		want  plan.FailureCode
	}{
		"Available":             {live: ours.Obj(), write: true},
		"Bound already":         {live: volume().ClaimRef("default", "data", "claim-uid").Phase(v1.VolumeBound).Obj()},
		"claimRef removed":      {live: volume().Obj(), want: plan.ClaimRefReset},
		"UID removed":           {live: volume().ClaimRef("default", "data", "").Obj(), want: plan.ClaimRefReset},
		"another claim's":       {live: volume().ClaimRef("other", "db", "u").Obj(), want: plan.VolumeClaimed},
		"deleted":               {want: plan.VolumeGone},
		"deleted and recreated": {live: volume().UID("new").Obj(), want: plan.VolumeReplaced},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, write, why := plan.Binding{Claim: claim().Obj(), Volume: volume().Obj()}.VolumeBound(tc.live)
			if write != tc.write || code(why) != tc.want {
				t.Fatalf("got write %t, failure %v; want %t, %q", write, why, tc.write, tc.want)
			}
			if why == nil && got.Status.Phase != v1.VolumeBound {
				t.Errorf("phase %q", got.Status.Phase)
			}
		})
	}
}

func TestFailureTexts(t *testing.T) {
	t.Parallel()
	tests := map[string]*plan.Failure{
		`binding claim "ns/c": volume "pv" was claimed by "ns2/other"`:                 {Code: plan.VolumeClaimed, Claim: "ns/c", Volume: "pv", Other: "ns2/other"},
		`binding claim "ns/c": provisioning failed: the provisioner rejected node "n"`: {Code: plan.ProvisioningFailed, Claim: "ns/c", Node: "n"},
		`pod "ns/p" was deleted while its volumes were bound`:                          {Code: plan.PodGone, Subject: "ns/p"},
		`node "n" was deleted while the volumes of "ns/c" were bound`:                  {Code: plan.NodeGone, Node: "n", Subject: "ns/c"},
		`Unheard`: {Code: "Unheard"},
	}
	for want, failure := range tests {
		if got := failure.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
