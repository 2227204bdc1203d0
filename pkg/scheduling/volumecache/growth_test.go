// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math"
	"testing"
	"time"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// TestFitsDoesNotGrow: the cost of Filter does not depend on the number of volumes or
// CSIStorageCapacity objects of other nodes. A hundred times as many may
// take ten times as long at most, since a smaller part of them is in the
// processor's caches; reading all of them takes a hundred times as long.
func TestFitsDoesNotGrow(t *testing.T) { // not parallel: it measures time
	const few, factor, most = 100, 100, 10
	for name, tc := range map[string]struct {
		build func(w *world, size int)
		class string
		size  string
		want  match.ReasonCode
	}{
		"volumes, one fits":           {localWorld, "local", "15Gi", match.Fits},
		"volumes, none fits":          {localWorld, "local", "1Ti", match.NoVolume},
		"capacity objects, one fits":  {capacityWorld, "made", "5Gi", match.Fits},
		"capacity objects, none fits": {capacityWorld, "made", "50Gi", match.NotEnoughSpace},
	} {
		t.Run(name, func(t *testing.T) {
			fastest := func(size int) time.Duration {
				w := newWorld(t, wffc("local"))
				tc.build(w, size)
				w.put(pvc("c", tc.size).Class(tc.class).Obj())
				nodes, demand := nodesOf(w), w.demand(pod("p", "c"))
				least := time.Duration(math.MaxInt64)
				for i := range 20_000 {
					begin := time.Now()
					reason := w.Fits(demand, nodes[i%len(nodes)])
					least = min(least, time.Since(begin))
					if reason.Code != tc.want {
						t.Fatalf("Fits returns %q, want %q", reason.Code, tc.want)
					}
				}
				return least
			}
			small, large := fastest(few), fastest(factor*few)
			t.Logf("%v with %d, %v with %d", small, few, large, factor*few)
			if large > most*max(small, 100*time.Nanosecond) {
				t.Errorf("Fits takes %v with %d, and %v with %d", small, few, large, factor*few)
			}
		})
	}
}
