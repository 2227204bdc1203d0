// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	module           = "stowage.dev/stowage"
	kubernetesModule = "k8s.io/kubernetes"

	folder = "test/perf/schedulerperf" // of this package, below the module

	// Below folder.
	ownConfig       = "config/performance-config.yaml"
	schedulerConfig = "config/volumetopology.yaml"
)

// topic is a file of workloads.
type topic struct {
	name   string
	config string // the file's absolute path
	// scheduler is the absolute path of the configuration of Stowage's arm.
	scheduler string
	// only keeps those test cases whose name ends so.
	only string
}

// workload is one size of one test case.
type workload struct {
	topic      topic
	test, size string
	params     map[string]int
	labels     []string
}

// findTopics finds the files: ours in the repository that holds the current
// folder, upstream's in the module cache.
func findTopics(ctx context.Context) ([]topic, error) {
	own, err := moduleDir(ctx, module)
	if err != nil {
		return nil, err
	}
	kubernetes, err := moduleDir(ctx, kubernetesModule)
	if err != nil {
		return nil, err
	}
	scheduler := filepath.Join(own, folder, schedulerConfig)
	return []topic{{
		name:      "volumes",
		config:    filepath.Join(kubernetes, "test/integration/scheduler_perf/volumes/performance-config.yaml"),
		scheduler: scheduler,
		only:      "PVs", // the others have no persistent volumes
	}, {
		name:      "waitforfirstconsumer",
		config:    filepath.Join(own, folder, ownConfig),
		scheduler: scheduler,
	}}, nil
}

// moduleDir is the folder with a module's sources.
func moduleDir(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, stderr.Bytes())
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", fmt.Errorf("the sources of %s are not in the module cache: go mod download %s", path, path)
	}
	return dir, nil
}

// workloads reads the topic's file.
func (t topic) workloads() ([]workload, error) {
	data, err := os.ReadFile(t.config)
	if err != nil {
		return nil, err
	}
	var tests []struct {
		Name      string
		Workloads []struct {
			Name   string
			Labels []string
			Params map[string]int
		}
	}
	if err := yaml.Unmarshal(data, &tests); err != nil {
		return nil, fmt.Errorf("read %s: %w", t.config, err)
	}
	var all []workload
	for _, test := range tests {
		if !strings.HasSuffix(test.Name, t.only) {
			continue
		}
		for _, w := range test.Workloads {
			all = append(all, workload{topic: t, test: test.Name, size: w.Name, params: w.Params, labels: w.Labels})
		}
	}
	return all, nil
}

// Name is unique among all topics.
func (w workload) Name() string { return w.topic.name + "/" + w.test + "/" + w.size }

// prefix is how the names of the workload's results begin.
func (w workload) prefix() string { return "SchedulerPerf/" + w.Name() }

func (w workload) nodes() int { return w.params["initNodes"] }

// pods that are measured.
func (w workload) pods() int { return w.params["measurePods"] }

// sized reports whether the workload runs without being named.
func (w workload) sized() bool { return w.nodes() >= 100 && w.nodes() <= 1000 }

func (w workload) stockTooSlow() bool { return slices.Contains(w.labels, "stock-too-slow") }
