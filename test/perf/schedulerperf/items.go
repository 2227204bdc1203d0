// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/test/perf/figures"
)

// The volume plugins of the two arms.
const (
	stockPlugin = "VolumeBinding"
	ownPlugin   = "VolumeTopology"
)

// dataItem is one metric in scheduler_perf's result files.
type dataItem struct {
	Data   map[string]float64 `json:"data"`
	Unit   string             `json:"unit"`
	Labels map[string]string  `json:"labels"`
}

// readItems reads the one result file that scheduler_perf has written to dir.
func readItems(dir string) ([]dataItem, error) {
	files, err := filepath.Glob(filepath.Join(dir, "BenchmarkPerfScheduling_benchmark_*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("want one result file of scheduler_perf, found %d", len(files))
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	var file struct {
		DataItems []dataItem `json:"dataItems"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(files[0]), err)
	}
	if len(file.DataItems) == 0 {
		return nil, errors.New("scheduler_perf ran no workload")
	}
	return file.DataItems, nil
}

// measuredNamespace is the one whose pods were measured: the last part of the
// name of each item.
func measuredNamespace(items []dataItem) (string, error) {
	for _, item := range items {
		if item.Labels["Metric"] == "SchedulingDuration" {
			return path.Base(item.Labels["Name"]), nil
		}
	}
	return "", errors.New("scheduler_perf did not report a SchedulingDuration")
}

// run is the result of one workload on one arm.
type run struct {
	podTimes
	// Reported is scheduler_perf's own mean throughput in pods per second, over
	// the whole seconds but the first; 0 if there were none.
	Reported float64
	// Attempt is the scheduler's mean time, in seconds, of an attempt that
	// placed a pod, until it was bound; 0 if unknown.
	Attempt float64
	// Plugin is the mean time, in seconds, of a call of the arm's volume plugin,
	// by extension point, of the calls that the scheduler samples (one pod in
	// ten). It separates the plugin's cost from the machine's noise.
	Plugin map[string]float64
}

// line is the run in the form in which it is stored.
func (r run) line(w workload, arm string) *benchfmt.Result {
	values := []figures.Value{
		{Value: float64(r.Bound) / r.Seconds, Unit: "pods/s"}, {Value: float64(w.nodes()), Unit: "nodes"}, {Value: r.Seconds, Unit: "sec"},
		{Value: r.P50, Unit: "p50-sec"}, {Value: r.P99, Unit: "p99-sec"},
		{Value: figures.Measured(r.Reported), Unit: "reported-pods/s"}, {Value: figures.Measured(r.Attempt), Unit: "attempt-sec"},
	}
	for _, point := range slices.Sorted(maps.Keys(r.Plugin)) {
		values = append(values, figures.Value{Value: r.Plugin[point], Unit: point + "-sec"})
	}
	return figures.Line(figures.Arm(w.prefix(), arm), r.Bound, values...)
}

// add takes over what scheduler_perf measured itself.
func (r *run) add(items []dataItem) {
	for _, item := range items {
		average := item.Data["Average"]
		switch item.Labels["Metric"] {
		case "SchedulingThroughput":
			r.Reported = average
		case "scheduler_scheduling_attempt_duration_seconds":
			if item.Labels["result"] == "scheduled" {
				r.Attempt = average / 1000 // it reports milliseconds
			}
		case "scheduler_plugin_execution_duration_seconds":
			if name := item.Labels["plugin"]; name != stockPlugin && name != ownPlugin {
				continue
			}
			if r.Plugin == nil {
				r.Plugin = map[string]float64{}
			}
			r.Plugin[item.Labels["extension_point"]] = average / 1000
		}
	}
}
