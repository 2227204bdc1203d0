// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestLostDisk: a claim whose volume has lost its disk fits no node, with the reason, until
// the disk is present again. Other claims use other volumes.
func TestLostDisk(t *testing.T) {
	t.Parallel()
	bound := func() *builders.PV {
		return localPV("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound)
	}
	kept := func() *builders.PV { return localPV("v", "a", "1Gi").ClaimRef("default", "c", "") }
	for name, tc := range map[string]struct {
		claim  *builders.PVC
		volume func() *builders.PV
		mark   string
		want   match.ReasonCode
	}{
		"bound, and missing":                  {pvc("c", "1Gi").Bound("v"), bound, "Missing", match.DiskMissing},
		"bound, and replaced":                 {pvc("c", "1Gi").Bound("v"), bound, "Replaced", match.DiskReplaced},
		"bound, and failing":                  {pvc("c", "1Gi").Bound("v"), bound, "Failing", match.DiskFailing},
		"a value of a later release":          {pvc("c", "1Gi").Bound("v"), bound, "OnFire", match.DiskReplaced},
		"reserved for the claim, and missing": {pvc("c", "1Gi"), kept, "Missing", match.DiskMissing},
		"reserved, missing, and too small":    {pvc("c", "2Gi"), kept, "Missing", match.DiskMissing},
		"free, and replaced":                  {pvc("c", "1Gi"), func() *builders.PV { return localPV("v", "a", "1Gi") }, "Replaced", match.NoVolume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, node("a"), node("b"), wffc("local"), tc.claim.Obj(), tc.volume().Annotation(wellknown.DiskAnnotation, tc.mark).Obj())
			p := pod("p", "c")
			w.check()
			for _, node := range []string{"a", "b"} {
				if got := w.fits(p, node); got != tc.want {
					t.Errorf("Fits returns %q on node %s, want %q", got, node, tc.want)
				}
			}
			if _, reason := w.Nodes(w.demand(p)); reason.Code != tc.want {
				t.Errorf("Nodes returns %q, want %q", reason.Code, tc.want)
			}
			if w.VolumeMayUnblock(w.demand(p), "v") {
				t.Error("VolumeMayUnblock is true while the disk is lost")
			}
			w.put(tc.volume().Obj())
			w.check()
			if tc.claim.Obj().Spec.Resources.Requests.Storage().Value() > 1<<30 {
				return
			}
			if got := w.fits(p, "a"); got != match.Fits {
				t.Errorf("Fits returns %q after the disk is present again", got)
			}
			if !w.VolumeMayUnblock(w.demand(p), "v") {
				t.Error("VolumeMayUnblock is false after the disk is present again")
			}
		})
	}
}

// TestDiskLostWhileReserved: a volume that loses its disk while it is reserved is not used.
func TestDiskLostWhileReserved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		written *builders.PV
		want    match.ReasonCode
	}{
		"before any write":               {localPV("v", "a", "1Gi"), match.NoVolume},
		"after the claimRef was written": {localPV("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c"), match.DiskMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, node("a"), wffc("local"), pvc("c", "1Gi").Obj(), localPV("v", "a", "1Gi").Obj())
			p := pod("p", "c")
			w.reserve(p, "a")
			w.put(tc.written.Annotation(wellknown.DiskAnnotation, "Missing").Obj())
			w.check()
			if got := w.fits(p, "a"); got != tc.want {
				t.Errorf("Fits returns %q, want %q", got, tc.want)
			}
			if got := w.reserve(p, "a"); got != nil {
				t.Errorf("reserved %v, want nothing", got)
			}
		})
	}
}
