// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command schedulerperf compares Stowage's scheduler with the stock one by
// upstream's scheduler_perf: a kube-apiserver with a stand-in for the PV
// controller, and the scheduler, all in one process, and an etcd beside it.
//
//	go run ./test/perf/schedulerperf -rounds 5
//
// Two topics: upstream's own workloads with persistent volumes, read unchanged
// from the Kubernetes module that go.mod pins, and config/performance-config.yaml
// of this folder, with claims that wait for their first consumer, which upstream
// has none of. Workloads of 100 to 1,000 nodes run by default, others if they are named.
//
// Metrics of Kubernetes components are global to a process. So each workload
// runs in a separate process, once per arm and round, the arms in turn: this
// command compiles the benchmark of this folder and runs it. It fails if Stowage does not
// keep up on an upstream workload. "make bench-scheduler-perf" runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
)

func main() {
	workloads, err := allWorkloads(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	r := &runner{}
	b := parts.Benchmark{
		Name: "bench-scheduler-perf", Only: "ONLY", Open: r.open, Close: r.close, Check: missed,
		Numbers: []parts.Number{{Name: "rounds", Usage: "how often each arm runs; from 3 on it is judged whether Stowage keeps up", Default: 5}},
	}
	for _, w := range workloads {
		b.Parts = append(b.Parts, parts.Part{
			Name: w.Name(), Prefixes: []string{w.prefix()}, OnlyNamed: !w.sized(),
			Measure: func(ctx context.Context, run *parts.Run) (figures.Set, error) {
				return r.measure(ctx, w, run.Number("rounds"))
			},
		})
	}
	b.Main()
}

// open compiles the benchmark and makes the folder that it runs in.
func (r *runner) open(ctx context.Context, _ *parts.Run) error {
	binaries, err := cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp("", "stowage-perf-"); err != nil {
		return err
	}
	r.binary, r.etcd = filepath.Join(r.dir, "schedulerperf.test"), binaries.Etcd
	return r.compile(ctx)
}

// close removes the folder.
func (r *runner) close() error { return os.RemoveAll(r.dir) }

// measure runs the arms of a workload in turn, round by round.
func (r *runner) measure(ctx context.Context, w workload, rounds int) (figures.Set, error) {
	return parts.Rounds(rounds, w.arms(), func(_ int, arm string) (*benchfmt.Result, error) {
		one, err := r.run(ctx, w, arm)
		if err != nil {
			return nil, err
		}
		line := one.line(w, arm)
		parts.Progress("%.1f pods/s", line.Values[0].Value)
		return line, nil
	})
}

// arms are those that run the workload.
func (w workload) arms() []string {
	if slices.Contains(w.labels, "stock-too-slow") {
		return []string{page.Stowage}
	}
	return []string{page.Stock, page.Stowage}
}

// missed is an error if Stowage does not keep up.
func missed(set figures.Set) error {
	for _, m := range page.Minimums(set) {
		if m.Outcome == page.Missed {
			return fmt.Errorf("slower than the stock scheduler: %s is %s, want %s", m.Name, m.Measured, m.Want)
		}
	}
	return nil
}

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

// allWorkloads are those of all topics: ours, of the repository that holds the current folder, and
// upstream's, of the module cache.
func allWorkloads(ctx context.Context) (all []workload, err error) {
	own, ownErr := moduleDir(ctx, module)
	kubernetes, err := moduleDir(ctx, kubernetesModule)
	if err := errors.Join(ownErr, err); err != nil {
		return nil, err
	}
	// Upstream's other workloads have no persistent volumes.
	upstream := filepath.Join(kubernetes, "test/integration/scheduler_perf/volumes/performance-config.yaml")
	scheduler := filepath.Join(own, folder, schedulerConfig)
	for _, t := range []topic{
		{name: "volumes", config: upstream, scheduler: scheduler, only: "PVs"},
		{name: "waitforfirstconsumer", config: filepath.Join(own, folder, ownConfig), scheduler: scheduler},
	} {
		of, err := t.workloads()
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// moduleDir is the folder with a module's sources.
func moduleDir(ctx context.Context, path string) (string, error) {
	dir, err := source.Output(ctx, "go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", path)
	if err == nil && dir == "" {
		err = fmt.Errorf("the sources of %s are not in the module cache: go mod download %[1]s", path)
	}
	return dir, err
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
