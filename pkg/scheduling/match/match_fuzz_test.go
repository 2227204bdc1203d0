// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"stowage.dev/stowage/pkg/testing/builders"
)

// FuzzMatch compares the rules for one claim with those of the stock scheduler and the PV
// controller. Known differences: a volume that is pre-bound to the claim must offer the
// claim's access modes here, and if it does not fit then no other volume is taken; among
// volumes of one size upstream takes the first it sees, here surplus access modes and
// then names decide; upstream compares fractions of a byte.
func FuzzMatch(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		claim := randomClaim(rng)
		var pvs []*v1.PersistentVolume
		for i := range rng.IntN(12) {
			pvs = append(pvs, randomPV(rng, i))
		}

		r, err := NewRequest(claim)
		want, wantErr := volume.FindMatchingVolume(claim, pvs, builders.MakeNode("node").Obj(), nil, true, true)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("error %v, upstream returns %v", err, wantErr)
		}
		if err != nil {
			return
		}
		named, best := choose(r, pvs)
		switch {
		case want == nil && named == nil && best != nil:
			t.Errorf("upstream finds nothing, First finds %s", best.Name)
		case want == nil && named != nil && r.FitsSpec(named):
			t.Errorf("upstream finds nothing, FitsSpec accepts the pre-bound %s", named.Name)
		case want != nil && volume.IsVolumeBoundToClaim(want, claim):
			if named == nil {
				t.Errorf("upstream finds the pre-bound %s, RefersTo does not", want.Name)
			} else if !r.FitsSpec(NewVolume(want)) && volume.CheckAccessModes(claim, want) {
				t.Errorf("upstream accepts the pre-bound %s, FitsSpec does not", want.Name)
			}
		case want != nil && named == nil:
			if best == nil {
				t.Fatalf("upstream finds %s, First finds nothing", want.Name)
			}
			if got := best.Bytes; got != NewVolume(want).Bytes {
				t.Errorf("upstream takes %d bytes, First %d", NewVolume(want).Bytes, got)
			}
		}
	})
}

// choose applies rules 1 to 3 and 5, the free volumes found by a Pool.
func choose(r *Request, pvs []*v1.PersistentVolume) (named, best *Volume) {
	pool := &Pool{}
	for _, key := range r.LabelKeys() {
		pool.IndexLabel(key)
	}
	for _, pv := range pvs {
		v := NewVolume(pv)
		if RefersTo(pv.Spec.ClaimRef, r.Claim) && (named == nil || !r.FitsSpec(named)) {
			named = v
		}
		if v.Free() && v.Class == r.Class {
			pool.Insert(v)
		}
	}
	if found := pool.Cheapest(r, 1, nil); len(found) > 0 {
		best = found[0]
	}
	return named, best
}

func randomClaim(rng *rand.Rand) *v1.PersistentVolumeClaim {
	b := builders.MakePVC("data").UID("uid").AccessModes(someModes[rng.IntN(len(someModes))]...)
	if rng.IntN(8) > 0 {
		b.Request(strconv.Itoa(rng.IntN(6)))
	} else {
		b.NoRequest()
	}
	switch rng.IntN(3) {
	case 0:
		b.Class("local")
	case 1:
		b.BetaClass("local").Class("other")
	}
	switch rng.IntN(6) {
	case 0:
		b.MatchLabel("tier", "a")
	case 1:
		b.MatchExpression("tier", "In", "a", "b").MatchExpression("rack", "Exists")
	case 2:
		b.MatchExpression("rack", "NotIn", "a")
	case 3:
		b.MatchExpression("tier", "Near", "a") // no such operator
	}
	if rng.IntN(6) == 0 {
		b.Block()
	}
	if rng.IntN(6) == 0 {
		b.AttributesClass([]string{"", "fast"}[rng.IntN(2)])
	}
	return b.Obj()
}

func randomPV(rng *rand.Rand, i int) *v1.PersistentVolume {
	b := builders.MakePV(fmt.Sprintf("pv-%d", i)).Capacity(strconv.Itoa(rng.IntN(6))).
		AccessModes(slices.Clone(someModes[rng.IntN(len(someModes))])...)
	switch rng.IntN(4) {
	case 0, 1:
		b.Class("local")
	case 2:
		b.Class("other").BetaClass([]string{"", "local"}[rng.IntN(2)])
	}
	for _, key := range []string{"tier", "rack"} {
		if rng.IntN(2) == 0 {
			b.Label(key, []string{"a", "b"}[rng.IntN(2)])
		}
	}
	if rng.IntN(6) == 0 {
		b.VolumeMode([]v1.PersistentVolumeMode{v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem}[rng.IntN(2)])
	}
	if rng.IntN(6) == 0 {
		b.AttributesClass([]string{"", "fast"}[rng.IntN(2)])
	}
	if rng.IntN(8) == 0 {
		b.Deleting()
	}
	if rng.IntN(8) == 0 {
		phases := []v1.PersistentVolumePhase{v1.VolumePending, v1.VolumeBound, v1.VolumeReleased, v1.VolumeFailed}
		b.Phase(phases[rng.IntN(len(phases))])
	}
	if rng.IntN(12) == 0 {
		refs := [][2]string{{"data", ""}, {"data", "uid"}, {"data", "other"}, {"other", ""}}
		ref := refs[rng.IntN(len(refs))]
		b.ClaimRef(builders.DefaultNamespace, ref[0], ref[1])
	}
	return b.Obj()
}

// TestSameAsComponentHelpers: the rules for classes and claimRefs equal those of
// component-helpers, for every spelling.
func TestSameAsComponentHelpers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		claim, pv := randomClaim(rng), randomPV(rng, 0)
		if got, want := ClaimClass(claim), volume.GetPersistentVolumeClaimClass(claim); got != want {
			t.Errorf("class of %+v: got %q, want %q", claim, got, want)
		}
		if got, want := VolumeClass(pv), volume.GetPersistentVolumeClass(pv); got != want {
			t.Errorf("class of %+v: got %q, want %q", pv, got, want)
		}
		if got, want := RefersTo(pv.Spec.ClaimRef, claim), volume.IsVolumeBoundToClaim(pv, claim); got != want {
			t.Errorf("claimRef %+v names %s: got %t, want %t", pv.Spec.ClaimRef, claim.Name, got, want)
		}
		if got, want := AccessModesOf(pv.Spec.AccessModes).Contains(AccessModesOf(claim.Spec.AccessModes)),
			volume.CheckAccessModes(claim, pv); got != want {
			t.Errorf("%v contain %v: got %t, want %t", pv.Spec.AccessModes, claim.Spec.AccessModes, got, want)
		}
	}
}
