// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
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

// add takes over what scheduler_perf measured itself.
func (f *figures) add(items []dataItem) {
	for _, item := range items {
		average := item.Data["Average"]
		switch item.Labels["Metric"] {
		case "SchedulingThroughput":
			f.Reported = average
		case "scheduler_scheduling_attempt_duration_seconds":
			if item.Labels["result"] == "scheduled" {
				f.Attempt = average / 1000 // it reports milliseconds
			}
		case "scheduler_plugin_execution_duration_seconds":
			if name := item.Labels["plugin"]; name != stockPlugin && name != ownPlugin {
				continue
			}
			if f.Plugin == nil {
				f.Plugin = map[string]float64{}
			}
			f.Plugin[item.Labels["extension_point"]] = average / 1000
		}
	}
}
