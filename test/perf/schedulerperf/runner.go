// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/page"
)

const (
	// etcdName is the program that scheduler_perf searches in $PATH; etcdEnv names the
	// environment variable with the path of the real one.
	etcdName = "etcd"
	etcdEnv  = "STOWAGE_ETCD"

	// podTimesFile is written beside scheduler_perf's results.
	podTimesFile = "pods.json"

	// runTimeout bounds one run, which then ends itself and prints its
	// goroutines. scheduler_perf gives pods ten minutes.
	runTimeout = 30 * time.Minute

	// maxDir is how long the path of a run's folder may be: that of a unix
	// socket holds 103 bytes on the narrowest system, and scheduler_perf has
	// etcd listen on one two folders down.
	maxDir = 103 - len("/integration_test_etcd_data1234567890/etcd.sock")

	// tailBytes of a failed run's output are shown.
	tailBytes = 4000
)

// runner runs single workloads as separate processes.
type runner struct {
	binary string // the compiled benchmark
	etcd   string // the real one
	dir    string // for temporary files
}

// podTimes has the benchmark's times of the pods of one namespace.
type podTimes struct {
	Pods  int `json:"pods"`
	Bound int `json:"bound"`
	// Seconds from the first pod seen by the scheduler to the last one bound.
	Seconds float64 `json:"seconds"`
	// Latency of one pod, between the same, in seconds.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// compile makes the benchmark's binary. Not with -trimpath, with which the API
// server in the process cannot find its own files.
func (r *runner) compile(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "Compiling the benchmark; the first time takes some minutes")
	root, err := moduleDir(ctx, module)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath=false", "-o", r.binary, "./"+folder)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// run runs a workload on the scheduler of an arm.
func (r *runner) run(ctx context.Context, w workload, arm string) (f run, err error) {
	dir, err := os.MkdirTemp(r.dir, "run-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := r.execute(ctx, w, arm, dir); err != nil {
		return f, fmt.Errorf("run %s on %s: %w", w.Name(), arm, err)
	}
	return readFigures(dir, w)
}

// execute runs the benchmark's process to its end, below dir.
func (r *runner) execute(ctx context.Context, w workload, arm, dir string) error {
	if len(dir) > maxDir {
		return fmt.Errorf("%q is longer than %d bytes, so the path of a unix socket in it would be too long: set $TMPDIR to a shorter one", dir, maxDir)
	}
	// Instead of etcd: see execEtcd.
	if err := os.Symlink(r.binary, filepath.Join(dir, etcdName)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, r.binary, arguments(w, arm, dir)...)
	cmd.Dir = filepath.Dir(w.topic.config)
	cmd.Env = append(os.Environ(),
		etcdEnv+"="+r.etcd,
		"PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"),
		"TMPDIR="+dir,
	)
	// The etcd that the child starts is in its process group. The kernel kills the child if this
	// process is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; the end of its output:\n%s", err, out[max(0, len(out)-tailBytes):])
}

// arguments of the benchmark's process.
func arguments(w workload, arm, results string) []string {
	args := []string{
		"-test.run=^$",
		"-test.bench=^BenchmarkPerfScheduling$/^" + regexp.QuoteMeta(w.test) + "$/^" + regexp.QuoteMeta(w.size) + "$",
		"-test.benchtime=1x",
		"-test.timeout=" + runTimeout.String(),
		"-topic=" + w.topic.name,
		"-topic-config=" + w.topic.config,
		"-data-items-dir=" + results,
		"-with-data-items-unique-id=false",
		"-perf-scheduling-label-filter=", // chosen by name
	}
	if arm == page.Stowage {
		args = append(args, "-scheduler-config="+w.topic.scheduler)
	}
	return args
}

// readFigures reads the results of a run.
func readFigures(results string, w workload) (run, error) {
	items, err := readItems(results)
	if err != nil {
		return run{}, err
	}
	namespace, err := measuredNamespace(items)
	if err != nil {
		return run{}, err
	}
	data, err := os.ReadFile(filepath.Join(results, podTimesFile))
	if err != nil {
		return run{}, err
	}
	var times map[string]podTimes
	if err := json.Unmarshal(data, &times); err != nil {
		return run{}, fmt.Errorf("read %s: %w", podTimesFile, err)
	}
	f := run{podTimes: times[namespace]}
	if f.Pods != w.pods() || f.Bound != f.Pods {
		return run{}, fmt.Errorf("of %d pods %d were seen and %d bound", w.pods(), f.Pods, f.Bound)
	}
	f.add(items)
	return f, nil
}

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
