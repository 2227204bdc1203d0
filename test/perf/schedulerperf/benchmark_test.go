// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"sigs.k8s.io/yaml"
	compat "stowage.dev/kubecompat/schedulerperf"

	_ "stowage.dev/stowage/pkg/apis/config/scheme" // VolumeTopologyArgs
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
)

var (
	topicFlag     = flag.String("topic", "stowage", "name of the topic, for the names of result files")
	topicConfig   = flag.String("topic-config", ownConfig, "file with the workloads, in scheduler_perf's format")
	schedulerFlag = flag.String("scheduler-config", "", "file with the scheduler's configuration; empty: the stock scheduler with its defaults")
)

// BenchmarkPerfScheduling runs workloads of one topic on one scheduler. Metrics
// are global to a process, so workloads that are compared run in separate processes:
// this package's command starts them.
func BenchmarkPerfScheduling(b *testing.B) {
	config, err := filepath.Abs(*topicConfig)
	if err != nil {
		b.Fatal(err)
	}
	withScheduler := topicWithScheduler(b, config, *schedulerFlag)
	if *schedulerFlag != "" {
		// Metrics are collected of the plugins in this slice, by now captured
		// elsewhere too: changed in place, or not at all.
		perf.PluginNames[slices.Index(perf.PluginNames, stockPlugin)] = ownPlugin
	}
	b.Chdir(filepath.Dir(config)) // templates are named relative to it
	perf.RunBenchmarkPerfScheduling(b, withScheduler, *topicFlag,
		frameworkruntime.Registry{volumetopology.Name: volumetopology.New},
		compat.WithNodes(nodesMade))
}

// topicWithScheduler writes a topic's workloads to another file, with a
// scheduler's configuration, and returns its name. Nothing else differs but
// thresholds, which are those of other machines: they are left out.
func topicWithScheduler(b *testing.B, topic, scheduler string) string {
	b.Helper()
	data, err := os.ReadFile(topic)
	if err != nil {
		b.Fatal(err)
	}
	var cases []map[string]any
	if err := yaml.Unmarshal(data, &cases); err != nil {
		b.Fatalf("read %s: %v", topic, err)
	}
	for _, testCase := range cases {
		if scheduler != "" {
			if testCase["schedulerConfigPath"], err = filepath.Abs(scheduler); err != nil {
				b.Fatal(err)
			}
		}
		workloads, _ := testCase["workloads"].([]any) // scheduler_perf reports other types
		for _, w := range workloads {
			if w, ok := w.(map[string]any); ok {
				delete(w, "threshold")
			}
		}
	}
	if data, err = yaml.Marshal(cases); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "performance-config.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

// profileOf is the profile that pods are scheduled by. It is an error if that
// is not the one of this arm.
func profileOf(sched *scheduler.Scheduler) (framework.Framework, error) {
	profile := sched.Profiles[v1.DefaultSchedulerName]
	if profile == nil {
		return nil, fmt.Errorf("the scheduler has no profile %q, which pods without a schedulerName use", v1.DefaultSchedulerName)
	}
	want, other := stockPlugin, ownPlugin
	if *schedulerFlag != "" {
		want, other = other, want
	}
	plugins := sets.New[string]()
	for _, plugin := range profile.ListPlugins().Filter.Enabled {
		plugins.Insert(plugin.Name)
	}
	if !plugins.Has(want) || plugins.Has(other) {
		return nil, fmt.Errorf("the scheduler filters by %v: want %s and not %s", sets.List(plugins), want, other)
	}
	return profile, nil
}
