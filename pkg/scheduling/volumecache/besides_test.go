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

func inRoom(t *testing.T) *world {
	t.Helper()
	return newWorld(t, dynamic("made", "csi"), tracked("csi"), node("a"),
		builders.MakeCapacity("room", "made").UID("room").Hostname("a").Capacity("10Gi").Obj(),
		pvc("one", "3Gi").Class("made").Obj(), pvc("two", "3Gi").Class("made").Obj())
}

// TestBesides: what others may take of a pool is not free.
func TestBesides(t *testing.T) {
	t.Parallel()
	w := inRoom(t)
	for name, tc := range map[string]struct {
		bytes int64
		want  match.ReasonCode
	}{
		"nothing":         {0, match.Fits},
		"just enough":     {4 * gi, match.Fits},
		"a byte too much": {4*gi + 1, match.NotEnoughSpace},
		"beyond all":      {math.MaxInt64, match.NotEnoughSpace},
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

// TestTracked: what is asked of a class's capacity, but for claims with a node.
func TestTracked(t *testing.T) {
	t.Parallel()
	w := inRoom(t)
	if diff := cmp.Diff(map[string]int64{"made": 6 * gi}, maps.Collect(w.demand(pod("p", "one", "two")).Tracked)); diff != "" {
		t.Errorf("two claims (-want +got):\n%s", diff)
	}
	sent := w.claim("one")
	metav1.SetMetaDataAnnotation(&sent.ObjectMeta, plan.AnnSelectedNode, "a")
	w.put(sent)
	if diff := cmp.Diff(map[string]int64{"made": 3 * gi}, maps.Collect(w.demand(pod("p", "one", "two")).Tracked)); diff != "" {
		t.Errorf("one has a node (-want +got):\n%s", diff)
	}
}

// TestObserveClaim: capacity is held for a claim that was sent to a node before the
// engine's own handler has heard of it.
func TestObserveClaim(t *testing.T) {
	t.Parallel()
	w := inRoom(t)
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
