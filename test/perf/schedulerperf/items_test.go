// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAddItems: only the volume plugin's times are kept, in seconds.
func TestAddItems(t *testing.T) {
	t.Parallel()
	item := func(average float64, labels ...string) dataItem {
		i := dataItem{Data: map[string]float64{"Average": average}, Labels: map[string]string{}}
		for n := 0; n < len(labels); n += 2 {
			i.Labels[labels[n]] = labels[n+1]
		}
		return i
	}
	var got run
	got.add([]dataItem{
		item(300, "Metric", "SchedulingThroughput"),
		item(20, "Metric", "scheduler_scheduling_attempt_duration_seconds", "result", "scheduled"),
		item(30, "Metric", "scheduler_scheduling_attempt_duration_seconds", "result", "unschedulable"),
		item(4, "Metric", "scheduler_plugin_execution_duration_seconds", "plugin", "VolumeTopology", "extension_point", "Filter"),
		item(5, "Metric", "scheduler_plugin_execution_duration_seconds", "plugin", "NodePorts", "extension_point", "Filter"),
	})
	want := run{Reported: 300, Attempt: 0.02, Plugin: map[string]float64{"Filter": 0.004}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(run{})); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}
