// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"maps"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

const gi = int64(1) << 30

func capacityTestbedOnA(t *testing.T) *testbed {
	t.Helper()
	return newTestbed(t, dynamic("made", "csi"), tracked("csi"), node("a"),
		builders.MakeCapacity("cap", "made").UID("cap").Hostname("a").Capacity("10Gi").Obj(),
		pvc("one", "3Gi").Class("made").Obj(), pvc("two", "3Gi").Class("made").Obj())
}

// TestPendingUsage: what other pods may take of a pool is not free.
func TestPendingUsage(t *testing.T) {
	t.Parallel()
	w := capacityTestbedOnA(t)
	for name, tc := range map[string]struct {
		bytes int64
		want  match.ReasonCode
	}{
		"nothing":          {0, match.Fits},
		"just enough":      {4 * gi, match.Fits},
		"a byte too much":  {4*gi + 1, match.NotEnoughSpace},
		"more than exists": {math.MaxInt64, match.NotEnoughSpace},
	} {
		d := w.demand(pod("p", "one", "two"))
		object, err := w.nodes.Get("a")
		if err != nil {
			t.Fatal(err)
		}
		pools := map[CapacityPool]int64{}
		w.CapacityPools(d, object, pools)
		if len(pools) != 1 {
			t.Fatalf("%d pools, want that of the node", len(pools))
		}
		for pool, bytes := range pools {
			if bytes != 6*gi {
				t.Errorf("the claims request %d of the pool, want %d", bytes, 6*gi)
			}
			pools[pool] = tc.bytes
		}
		d.AddPendingUsage(pools)
		if got := w.Fits(d, object).Code; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestTracked: the bytes requested of a class's capacity, except by claims with a
// selected node.
func TestTracked(t *testing.T) {
	t.Parallel()
	w := capacityTestbedOnA(t)
	if diff := cmp.Diff(map[string]int64{"made": 6 * gi}, maps.Collect(w.demand(pod("p", "one", "two")).Tracked)); diff != "" {
		t.Errorf("two claims (-want +got):\n%s", diff)
	}
	sent := w.claim("one")
	metav1.SetMetaDataAnnotation(&sent.ObjectMeta, plan.AnnSelectedNode, "a")
	w.put(sent)
	if diff := cmp.Diff(map[string]int64{"made": 3 * gi}, maps.Collect(w.demand(pod("p", "one", "two")).Tracked)); diff != "" {
		t.Errorf("one has a selected node (-want +got):\n%s", diff)
	}
}

// TestObserveClaim: ObserveClaim holds capacity for a claim with a selected node before
// the volume cache's own handler has processed the claim.
func TestObserveClaim(t *testing.T) {
	t.Parallel()
	w := capacityTestbedOnA(t)
	sent := w.claim("one")
	metav1.SetMetaDataAnnotation(&sent.ObjectMeta, plan.AnnSelectedNode, "a")
	w.hold()
	w.put(sent)
	if got := w.Size().Reservations; got != 0 {
		t.Fatalf("%d reservations before", got)
	}
	w.ObserveClaim("default", "one")
	w.ObserveClaim("default", "gone")
	if got := w.Size().Reservations; got != 1 {
		t.Errorf("%d reservations, want that of the claim", got)
	}
	w.release()
	w.check()
	if got := w.Size().Reservations; got != 1 {
		t.Errorf("%d reservations after the event", got)
	}
}
