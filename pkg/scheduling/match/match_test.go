// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
)

const (
	rwo  = v1.ReadWriteOnce
	rox  = v1.ReadOnlyMany
	rwx  = v1.ReadWriteMany
	rwop = v1.ReadWriteOncePod
)

func request(t testing.TB, claim *builders.PVC) *Request {
	t.Helper()
	r, err := NewRequest(claim.Obj())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func claim() *builders.PVC {
	return builders.MakePVC("data").UID("uid-1").Class("local").Request("2Gi")
}

func pv(name string) *builders.PV { return builders.MakePV(name).Class("local").Capacity("2Gi") }

// TestOneClaimOneVolume is rules 1 to 3 for one claim and one volume.
func TestOneClaimOneVolume(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim             *builders.PVC
		pv                *builders.PV
		fitsSpec, matches bool
	}{
		"just large enough":              {claim(), pv("pv"), true, true},
		"one byte too small":             {claim(), pv("pv").Capacity("2147483647"), false, false},
		"same bytes, other unit":         {claim().Request("2147483648"), pv("pv"), true, true},
		"part of a byte counts as one":   {claim().Request("1500m"), pv("pv").Capacity("1"), false, false},
		"no request, no capacity":        {claim().NoRequest(), pv("pv").Capacity("0"), true, true},
		"the largest int64":              {claim().Request("9223372036854775807"), pv("pv").Capacity("9223372036854775807"), true, true},
		"more than the largest int64":    {claim().Request("100E"), pv("pv").Capacity("8Ei"), true, true},
		"much larger than requested":     {claim(), pv("pv").Capacity("100Ti"), true, true},
		"other class":                    {claim(), pv("pv").Class("other"), true, false},
		"no class on both sides":         {builders.MakePVC("data"), builders.MakePV("pv"), true, true},
		"beta class on the claim only":   {builders.MakePVC("data").BetaClass("local"), pv("pv"), true, true},
		"beta class on the volume only":  {claim(), pv("pv").Class("").BetaClass("local"), true, true},
		"beta class wins over the spec":  {claim(), pv("pv").BetaClass("other"), true, false},
		"an empty beta class wins too":   {claim(), pv("pv").BetaClass(""), true, false},
		"block wanted, got filesystem":   {claim().Block(), pv("pv"), false, false},
		"filesystem wanted, got block":   {claim(), pv("pv").Block(), false, false},
		"nil volume mode is filesystem":  {claim().VolumeMode(v1.PersistentVolumeFilesystem), pv("pv"), true, true},
		"access modes contain":           {claim().AccessModes(rwx), pv("pv").AccessModes(rwo, rwx), true, true},
		"access modes lack one":          {claim().AccessModes(rwo, rwx), pv("pv").AccessModes(rwo), false, false},
		"one pod is not one node":        {claim().AccessModes(rwop), pv("pv").AccessModes(rwo), false, false},
		"unknown mode":                   {claim().AccessModes("ReadWriteMars"), pv("pv").AccessModes("ReadWriteMars"), false, false},
		"volume with an unknown mode":    {claim(), pv("pv").AccessModes(rwo, "ReadWriteMars"), true, true},
		"other attributes class":         {claim().AttributesClass("fast"), pv("pv").AttributesClass("slow"), false, false},
		"attributes class not requested": {claim(), pv("pv").AttributesClass("slow"), false, false},
		"empty attributes class is nil":  {claim().AttributesClass(""), pv("pv"), true, true},
		"same attributes class":          {claim().AttributesClass("fast"), pv("pv").AttributesClass("fast"), true, true},
		"volume is being deleted":        {claim(), pv("pv").Deleting(), false, false},
		"selector matches":               {claim().MatchLabel("tier", "gold"), pv("pv").Label("tier", "gold"), true, true},
		"selector does not match":        {claim().MatchLabel("tier", "gold"), pv("pv").Label("tier", "iron"), true, false},
		"selector, but no label":         {claim().MatchLabel("tier", "gold"), pv("pv"), true, false},
		"empty selector":                 {claim().Selector(&metav1.LabelSelector{}), pv("pv"), true, true},
		"NotIn admits a missing label":   {claim().MatchExpression("tier", metav1.LabelSelectorOpNotIn, "gold"), pv("pv"), true, true},
		"the phase is not evaluated":     {claim(), pv("pv").Phase(v1.VolumeBound), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, v := request(t, tc.claim), NewVolume(tc.pv.Obj())
			if got := r.FitsSpec(v); got != tc.fitsSpec {
				t.Errorf("FitsSpec: got %t, want %t", got, tc.fitsSpec)
			}
			if got := r.Matches(v); got != tc.matches {
				t.Errorf("Matches: got %t, want %t", got, tc.matches)
			}
		})
	}
}

func TestFree(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pv   *builders.PV
		want bool
	}{
		"available":                         {pv("pv"), true},
		"not observed by the PV controller": {pv("pv").Phase(v1.VolumePending), false},
		"without a phase":                   {pv("pv").Phase(""), false},
		"bound":                             {pv("pv").Phase(v1.VolumeBound).ClaimRef("default", "data", "uid"), false},
		"released":                          {pv("pv").Phase(v1.VolumeReleased).ClaimRef("default", "data", "uid"), false},
		"failed":                            {pv("pv").Phase(v1.VolumeFailed), false},
		"reserved, still available":         {pv("pv").ClaimRef("default", "data", ""), false},
		"being deleted":                     {pv("pv").Deleting(), false},
		"its disk is missing":               {pv("pv").Annotation("stowage.dev/disk", "Missing"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := NewVolume(tc.pv.Obj()).Free(); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRefersTo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pv   *builders.PV
		want bool
	}{
		"no claimRef":                       {pv("pv"), false},
		"name only, as a user writes it":    {pv("pv").ClaimRef("default", "data", ""), true},
		"with the claim's UID":              {pv("pv").ClaimRef("default", "data", "uid-1"), true},
		"an older claim of the same name":   {pv("pv").ClaimRef("default", "data", "uid-0"), false},
		"same name in another namespace":    {pv("pv").ClaimRef("prod", "data", ""), false},
		"another claim":                     {pv("pv").ClaimRef("default", "logs", ""), false},
		"another name with the claim's UID": {pv("pv").ClaimRef("default", "logs", "uid-1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := RefersTo(tc.pv.Obj().Spec.ClaimRef, claim().Obj()); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// TestBestFit is rule 5: which of several free volumes is taken.
func TestBestFit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim *builders.PVC
		pvs   []*builders.PV
		want  []string // all that fit, best first
	}{
		"the smallest that is enough": {
			claim(),
			[]*builders.PV{pv("a").Capacity("10Gi"), pv("b").Capacity("1Gi"), pv("c").Capacity("3Gi")},
			[]string{"c", "a"},
		},
		"of one size the one with the fewest surplus access modes": {
			claim(),
			[]*builders.PV{pv("a").AccessModes(rwo, rox, rwx), pv("b").AccessModes(rwo, rwx), pv("c")},
			[]string{"c", "b", "a"},
		},
		"size precedes access modes": {
			claim(),
			[]*builders.PV{pv("a").Capacity("3Gi"), pv("b").AccessModes(rwo, rwx)},
			[]string{"b", "a"},
		},
		"of equal ones the first by name": {
			claim(),
			[]*builders.PV{pv("pv-2"), pv("pv-10"), pv("pv-1")},
			[]string{"pv-1", "pv-10", "pv-2"},
		},
		"by name across different access modes with the same surplus": {
			claim(),
			[]*builders.PV{pv("b").AccessModes(rwo, rox), pv("a").AccessModes(rwo, rwx), pv("c").AccessModes(rwo, rox)},
			[]string{"a", "b", "c"},
		},
		"a selector skips smaller volumes": {
			claim().MatchLabel("tier", "gold"),
			[]*builders.PV{pv("a"), pv("b").Capacity("9Gi").Label("tier", "gold"), pv("c").Label("tier", "iron")},
			[]string{"b"},
		},
		"several values of a label, best first over all": {
			claim().MatchExpression("tier", metav1.LabelSelectorOpIn, "gold", "iron"),
			[]*builders.PV{pv("a").Capacity("4Gi").Label("tier", "gold"), pv("b").Capacity("3Gi").Label("tier", "iron"), pv("c").Label("tier", "tin")},
			[]string{"b", "a"},
		},
		"nothing fits": {
			claim().Request("20Gi"),
			[]*builders.PV{pv("a"), pv("b")},
			[]string{},
		},
	} {
		for _, indexed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r, pool := request(t, tc.claim), &Pool{}
				if indexed {
					for _, key := range r.LabelKeys() {
						pool.IndexLabel(key)
					}
				}
				for _, b := range tc.pvs {
					pool.Insert(NewVolume(b.Obj()))
				}
				if diff := cmp.Diff(tc.want, names(pool.Cheapest(r, 10, nil))); diff != "" {
					t.Errorf("indexed %t (-want, +got):\n%s", indexed, diff)
				}
			})
		}
	}
}

func TestLabelKeys(t *testing.T) {
	t.Parallel()
	r := request(t, claim().MatchLabel("b", "1").
		MatchExpression("a", metav1.LabelSelectorOpIn, "1", "2").
		MatchExpression("a", metav1.LabelSelectorOpExists).
		MatchExpression("c", metav1.LabelSelectorOpNotIn, "1").
		MatchExpression("d", metav1.LabelSelectorOpDoesNotExist))
	if diff := cmp.Diff([]string{"a", "b"}, r.LabelKeys()); diff != "" {
		t.Errorf("keys that an index can serve (-want, +got):\n%s", diff)
	}
	if keys := request(t, claim()).LabelKeys(); len(keys) != 0 {
		t.Errorf("a claim without selector has label keys %q", keys)
	}
}

func TestUnreadableSelectorNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := NewRequest(claim().MatchExpression("tier", "Near", "gold").Obj())
	if err == nil || !strings.Contains(err.Error(), "spec.selector of claim default/data") {
		t.Errorf("the error does not name the field: %v", err)
	}
}

// TestEmptyObjectsDoNotPanic: a claim with only the beta class annotation and volumes
// without any optional field once terminated a scheduler.
func TestEmptyObjectsDoNotPanic(t *testing.T) {
	t.Parallel()
	r, err := NewRequest(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{v1.BetaStorageClassAnnotation: "local"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	v := NewVolume(&v1.PersistentVolume{})
	if v.Free() || r.Matches(v) || !r.FitsSpec(v) {
		t.Errorf("free %t, matches %t, fits %t; want only fits", v.Free(), r.Matches(v), r.FitsSpec(v))
	}
	if r.Class != "local" || r.Bytes != 0 || v.Bytes != 0 {
		t.Errorf("class %q, request %d, capacity %d", r.Class, r.Bytes, v.Bytes)
	}
}

func TestAccessModes(t *testing.T) {
	t.Parallel()
	all := AccessModesOf([]v1.PersistentVolumeAccessMode{rwo, rox, rwx, rwop})
	if got := all.Surplus(AccessModesOf([]v1.PersistentVolumeAccessMode{rwo, rwo})); got != 3 {
		t.Errorf("Surplus: got %d, want 3", got)
	}
	if !all.Contains(0) || !AccessModes(0).Contains(0) {
		t.Error("the empty set is not contained")
	}
	if AccessModes(math.MaxUint8).Contains(AccessModesOf([]v1.PersistentVolumeAccessMode{"ReadWriteMars"})) {
		t.Error("a set contains an unknown mode")
	}
}

func TestReasonTexts(t *testing.T) {
	t.Parallel()
	seen := map[string]ReasonCode{}
	for code := NoVolume; code < reasonCodes; code++ {
		text := code.String()
		if !strings.HasPrefix(text, "node(s) ") {
			t.Errorf("reason %d has text %q, which cannot follow a number of nodes", code, text)
		}
		if other, ok := seen[text]; ok {
			t.Errorf("reasons %d and %d have the same text: %q", other, code, text)
		}
		seen[text] = code
	}
	if Fits.String() != "" || (Reason{}).Code != Fits {
		t.Error("Fits is not the zero value")
	}
	if reasonCodes.String() == "" {
		t.Error("an undefined code has no text")
	}
}
