// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

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
	logs   string // folder of the outputs; empty: discarded
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
	defer func() {
		if err != nil {
			err = fmt.Errorf("run %s on %s: %w", w.Name(), arm, err)
		}
	}()
	dir, err := os.MkdirTemp(r.dir, "run-")
	if err != nil {
		return f, err
	}
	defer func() {
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
	}()
	results := filepath.Join(dir, "results")
	if r.logs != "" {
		name := strings.ReplaceAll(fmt.Sprintf("%s-%s-%s", w.Name(), arm, time.Now().UTC().Format("150405")), "/", "_")
		if results, err = filepath.Abs(filepath.Join(r.logs, name)); err != nil {
			return f, err
		}
	}
	if err := os.MkdirAll(results, 0o755); err != nil {
		return f, err
	}
	if err := r.execute(ctx, w, arm, dir, results); err != nil {
		return f, err
	}
	return readFigures(results, w)
}

// execute runs the benchmark's process to its end, below dir.
func (r *runner) execute(ctx context.Context, w workload, arm string, dir, results string) error {
	if len(dir) > maxDir {
		return fmt.Errorf("%q is longer than the %d bytes that leave room for the path of a unix socket: set $TMPDIR to a shorter one", dir, maxDir)
	}
	// Instead of etcd: see execEtcd.
	if err := os.Symlink(r.binary, filepath.Join(dir, etcdName)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(results, "output.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, r.binary, arguments(w, arm, results)...)
	cmd.Dir = filepath.Dir(w.topic.config)
	cmd.Env = append(os.Environ(),
		etcdEnv+"="+r.etcd,
		"PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"),
		"TMPDIR="+dir,
	)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	err = cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; the end of its output:\n%s", err, tail(log.Name()))
}

// arguments of the benchmark's process.
func arguments(w workload, arm string, results string) []string {
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

// tail is the end of a file, as far as it can be read.
func tail(path string) []byte {
	data, _ := os.ReadFile(path)
	if len(data) > tailBytes {
		data = data[len(data)-tailBytes:]
	}
	return bytes.TrimSpace(data)
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
