// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the stock plugin and Stowage side by side on whole clusters, and the
// extender's calls to filter.
//
//	go run ./hack/bench -only static-500,filter -rounds 1            some, printed only
//	go run ./hack/bench -only static-500 -profile FOLDER             with the scheduler's CPU profile and log
//	go run ./hack/bench -out docs/benchmarks/clusters.txt            everything, stored, with the tables of docs/benchmarks.md
//	go run ./hack/bench -page                                        the tables of docs/benchmarks.md, from stored results
//
// "make bench" and "make bench-quick" run it, from the top of the repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/bench"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/parts"
)

func main() {
	if slices.Equal(os.Args[1:], []string{"-page"}) {
		if err := page.Write("."); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	r := &runner{}
	b := parts.Benchmark{
		Name: "bench", Only: "WORKLOADS", Open: r.build, Show: show,
		Numbers: []parts.Number{
			{Name: "rounds", Usage: "how often each arm runs", Default: 3, Quick: 1},
			{Name: "calls", Usage: "calls to filter of each kind", Default: 1000},
		},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&r.config.Profile.Folder, "profile", "", "folder for the scheduler's profiles and logs, which cost speed")
			flags.IntVar(&r.config.Profile.Verbosity, "v", 0, "verbosity of the scheduler's log")
		},
	}
	for _, w := range bench.Workloads() {
		b.Parts = append(b.Parts, parts.Part{
			Name: w.Name, Prefixes: []string{w.Prefix()}, Quick: w.Quick, Config: w.Config(),
			Measure: func(ctx context.Context, run *parts.Run) (figures.Set, error) {
				return r.workload(ctx, w, run.Number("rounds"))
			},
		})
	}
	w := bench.FilterWorkload()
	b.Parts = append(b.Parts, parts.Part{
		Name: w.Name, Prefixes: []string{"Filter"}, Config: w.Config(),
		Measure: func(ctx context.Context, run *parts.Run) (measured figures.Set, err error) {
			err = r.prepared(ctx, w, func(c bench.Config) error {
				measured, err = bench.Filter(ctx, c, run.Number("calls"))
				return err
			})
			return measured, err
		},
	})
	b.Main()
}

// show is the table of a workload, or the lines of calls to filter.
func show(set figures.Set) string {
	if len(set.Below("Cluster")) > 0 {
		return page.Clusters(set)
	}
	return set.String()
}

// runner has what all runs need.
type runner struct {
	config    bench.Config
	scheduler string
}

// build builds the binaries.
func (r *runner) build(ctx context.Context, _ *parts.Run) (err error) {
	r.config.Progress = parts.Progress
	build := cluster.BuildOptions{Progress: os.Stderr}
	if r.config.Binaries, err = cluster.Build(ctx, build); err != nil {
		return err
	}
	if r.scheduler, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/scheduler"); err != nil {
		return err
	}
	r.config.Extender, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/extender")
	return err
}

// workload runs all arms in turn, round by round. The results are in the order of the arms.
func (r *runner) workload(ctx context.Context, w bench.Workload, rounds int) (figures.Set, error) {
	byArm := map[bench.Arm]figures.Set{}
	err := r.prepared(ctx, w, func(c bench.Config) error {
		for round := range rounds {
			shares := slices.Clone(w.Arms)
			if round%2 == 1 {
				slices.Reverse(shares) // so that no arm is always the first
			}
			for _, share := range shares {
				c.Arm, c.Round, c.Pods, c.Scheduler = share.Arm, round+1, share.Pods, r.scheduler
				if w.KubeScheduler && share.Arm != bench.Direct {
					c.Scheduler = "" // the control plane's own
				}
				parts.Progress("%s, round %d of %d: %s", w.Name, c.Round, rounds, c.Arm)
				one, err := bench.Run(ctx, c)
				if err != nil {
					return fmt.Errorf("%s, round %d: %w", c.Arm, c.Round, err)
				}
				parts.Progress("%.2f/s, p50 %.3gs, %d of %d", one.Throughput(), one.P50, one.Done, one.Asked)
				byArm[c.Arm] = append(byArm[c.Arm], one.Line(w, c.Arm))
			}
		}
		return nil
	})
	var measured figures.Set
	for _, share := range w.Arms {
		measured = append(measured, byArm[share.Arm]...)
	}
	return measured, err
}

// prepared makes a workload's nodes and volumes, with which all its runs begin.
func (r *runner) prepared(ctx context.Context, w bench.Workload, do func(bench.Config) error) (err error) {
	dir, err := os.MkdirTemp("", "stowage-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := r.config
	c.Workload = w
	folder := filepath.Join(dir, "etcd")
	if err := bench.Prepare(ctx, c, folder); err != nil {
		return err
	}
	c.Prepared = folder
	return do(c)
}
