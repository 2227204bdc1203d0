// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"stowage.dev/stowage/pkg/metrics"
)

// Every metric is served under the name that dashboards and alerts use, with the recorded
// value.
func TestMetricsAreServed(t *testing.T) {
	metrics.ObserveMatching(time.Second) // before Register: ignored, not fatal
	metrics.Register()
	metrics.Register()
	legacyregistry.Reset()

	metrics.ObserveMatching(time.Microsecond)
	metrics.ObserveReserve(time.Microsecond)
	metrics.ObserveBind("Direct", "success", time.Millisecond)
	metrics.ObserveBindStage("claim_volumes", "success", time.Millisecond)
	metrics.CountBindConflict("persistentvolumes", "retried")
	size := func() metrics.CacheSize {
		return metrics.CacheSize{Volumes: 500, Segments: 10, Nodes: 5, Reservations: 1, Provisioning: map[string]metrics.Provisioning{
			"fast": {Claims: 2, Bytes: 3 << 30, Overdue: 1},
		}}
	}
	defer metrics.WatchCache(size)()
	defer metrics.WatchCache(size)()
	metrics.WatchCache(size)() // stopped
	metrics.SetDirectBindingDisabled(true)

	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		if name := family.GetName(); strings.HasPrefix(name, "stowage_") {
			names = append(names, strings.TrimPrefix(name, "stowage_scheduler_"))
		}
	}
	slices.Sort(names)
	want := []string{
		"bind_conflicts_total", "bind_duration_seconds", "bind_stage_duration_seconds", "direct_binding_disabled",
		"index_nodes", "index_segments", "index_volumes", "matching_duration_seconds",
		"provisioning_claims", "provisioning_held_bytes", "provisioning_overdue_claims", "reservations", "reserve_duration_seconds",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	err = testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(`
# HELP stowage_scheduler_bind_conflicts_total [ALPHA] Conflicts of a binding's writes with a newer version of the object, by resource and outcome: done (it has the change), retried, lost (another client has taken the object).
# TYPE stowage_scheduler_bind_conflicts_total counter
stowage_scheduler_bind_conflicts_total{outcome="retried",resource="persistentvolumes"} 1
# HELP stowage_scheduler_index_segments [ALPHA] Distinct conditions on nodes in the index: of volumes, of storage capacity and of storage classes.
# TYPE stowage_scheduler_index_segments gauge
stowage_scheduler_index_segments 20
# HELP stowage_scheduler_provisioning_held_bytes [ALPHA] Bytes of storage capacity that are held for these claims, by storage class.
# TYPE stowage_scheduler_provisioning_held_bytes gauge
stowage_scheduler_provisioning_held_bytes{storage_class="fast"} 6.442450944e+09
# HELP stowage_scheduler_provisioning_overdue_claims [ALPHA] Claims whose volume did not appear within 15 minutes on the selected node, so that their capacity is no longer held, by storage class.
# TYPE stowage_scheduler_provisioning_overdue_claims gauge
stowage_scheduler_provisioning_overdue_claims{storage_class="fast"} 2
`), "stowage_scheduler_bind_conflicts_total", "stowage_scheduler_index_segments",
		"stowage_scheduler_provisioning_held_bytes", "stowage_scheduler_provisioning_overdue_claims")
	if err != nil {
		t.Error(err)
	}
}
