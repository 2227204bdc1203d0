// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/page"
)

// TestSmallWorkloads keeps the benchmark working: the smallest size of our own
// test cases, and of one of upstream's, through all of the command except
// compiling.
func TestSmallWorkloads(t *testing.T) {
	binaries, err := cluster.Build(t.Context(), cluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := moduleDir(t.Context(), kubernetesModule)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(filepath.Base(upstream), "@v"+binaries.Minor+".") {
		t.Skipf("the benchmark contains %s, and this is Kubernetes %s", filepath.Base(upstream), binaries.Minor)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]string{
		"waitforfirstconsumer/StaticLocalPVs/5Nodes":        {page.Stowage},
		"waitforfirstconsumer/StaticLocalPVs4Claims/5Nodes": {page.Stowage},
		"waitforfirstconsumer/StorageCapacity/5Nodes":       {page.Stowage},
		"volumes/SchedulingCSIPVs/5Nodes":                   {page.Stock, page.Stowage},
	}
	workloads, err := allWorkloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, arms := range tests {
		i := slices.IndexFunc(workloads, func(w workload) bool { return w.Name() == name })
		if i < 0 {
			t.Fatalf("no workload %s", name)
		}
		for _, arm := range arms {
			t.Run(name+"/"+arm, func(t *testing.T) {
				t.Parallel()
				// Not t.TempDir: a unix socket's path is short.
				dir, err := os.MkdirTemp("", "stowage-perf-") //nolint:usetesting // see above
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.RemoveAll(dir) })
				r := &runner{binary: binary, etcd: binaries.Etcd, dir: dir}
				f, err := r.run(t.Context(), workloads[i], arm) // fails unless all pods are bound
				if err != nil {
					t.Fatal(err)
				}
				if f.Seconds == 0 || f.P50 == 0 {
					t.Errorf("%+v: want a throughput and a latency", f)
				}
				if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
					t.Errorf("%v are left in the runner's folder (%v)", left, err)
				}
			})
		}
	}
}

// TestMissed names the workload on which Stowage does not keep up.
func TestMissed(t *testing.T) {
	t.Parallel()
	var set figures.Set
	for arm, pods := range map[string]float64{page.Stock: 100, page.Stowage: 80} {
		for range 3 {
			set = append(set, figures.Line(figures.Arm("SchedulerPerf/volumes/A", arm), 100, figures.Value{Value: pods, Unit: "pods/s"}))
		}
	}
	if err := missed(set); err == nil || !strings.Contains(err.Error(), "volumes/A: stowage / stock is 0.800×") {
		t.Errorf("missed: %v, want it to name the workload", err)
	}
	if err := missed(set[:3]); err != nil {
		t.Errorf("one arm: %v", err)
	}
}

// TestDefaultWorkloads: those that fit a small machine, of both topics.
func TestDefaultWorkloads(t *testing.T) {
	workloads, err := allWorkloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, w := range workloads {
		if !w.sized() {
			continue
		}
		found[w.topic.name] = true
		if w.pods() == 0 {
			t.Errorf("%s has no pods to measure", w.Name())
		}
		if w.topic.name == "volumes" && len(w.arms()) != 2 {
			t.Errorf("%s is not run on the stock scheduler, against which it is judged", w.Name())
		}
	}
	if len(found) != 2 {
		t.Errorf("the workloads are of the topics %v, want both", found)
	}
}
