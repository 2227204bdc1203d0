// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the stock plugin and Stowage side by side on whole clusters (real etcd,
// kube-apiserver and PV controller, and nodes and volumes that are objects only), claims without
// pods, the extender's calls to filter, and commands of kubectl-stowage.
//
//	go run ./test/perf/bench -only static-500,filter -rounds 1            some, printed only
//	go run ./test/perf/bench -only static-500 -profile FOLDER             with the scheduler's CPU profile and log
//	go run ./test/perf/bench -out docs/benchmarks/clusters.txt            everything, stored, with the tables of docs/benchmarks.md
//	go run ./test/perf/bench -page                                        the tables of docs/benchmarks.md, from stored results
//
// "make bench" and "make bench-quick" run it, from the top of the repository.
//
// Each run of a workload by an arm has its own cluster. The nodes, volumes and claims are made
// first, the PV controller and the scheduler start, one pod is scheduled to warm them up, and only
// then the load is put on and measured. All arms run the same scheduler binary; only its
// profile differs. In the arm Ceiling a bare client does the writes of scheduling instead, with
// places chosen beforehand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/test/cluster"
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
	c := &Config{Progress: parts.Progress}
	b := parts.Benchmark{
		Name: "bench", Only: "WORKLOADS", Open: c.build, Show: show,
		Numbers: []parts.Number{
			{Name: "rounds", Usage: "how often each arm runs", Default: 3, Quick: 1},
			{Name: "calls", Usage: "calls to filter of each kind", Default: 1000},
		},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&c.Profile.Folder, "profile", "", "folder for the scheduler's profiles and logs, which cost speed")
			flags.IntVar(&c.Profile.Verbosity, "v", 0, "verbosity of the scheduler's log")
		},
	}
	for _, w := range Workloads() {
		b.Parts = append(b.Parts, parts.Part{
			Name: w.Name, Prefixes: []string{w.Prefix()}, Quick: w.Quick, Config: w.Config(),
			Measure: func(ctx context.Context, run *parts.Run) (figures.Set, error) {
				return c.rounds(ctx, w, run.Number("rounds"), Pods)
			},
		})
	}
	for _, w := range ClaimWorkloads() {
		b.Parts = append(b.Parts, parts.Part{
			Name: w.Name, Prefixes: []string{claimsPrefix(w)}, Config: w.Config(),
			Measure: func(ctx context.Context, run *parts.Run) (figures.Set, error) {
				return c.rounds(ctx, w, run.Number("rounds"), Claims)
			},
		})
	}
	w := FilterWorkload()
	b.Parts = append(b.Parts, parts.Part{
		Name: w.Name, Prefixes: []string{"Filter"}, Config: w.Config(),
		Measure: func(ctx context.Context, run *parts.Run) (measured figures.Set, err error) {
			err = c.prepared(ctx, w, func(c Config) error {
				measured, err = Filter(ctx, c, run.Number("calls"))
				return err
			})
			return measured, err
		},
	})
	w = InspectWorkload()
	b.Parts = append(b.Parts, parts.Part{
		Name: w.Name, Prefixes: []string{"Inspect"}, Config: w.Config(),
		Measure: func(ctx context.Context, run *parts.Run) (figures.Set, error) {
			c := *c
			c.Workload = w
			return Inspect(ctx, c, run.Number("rounds"))
		},
	})
	b.Main()
}

// show is the table of a workload, or the lines of calls to filter.
func show(set figures.Set) string {
	if len(set.Below("Cluster")) > 0 {
		return page.Clusters(set)
	}
	if len(set.Below("Claims")) > 0 {
		return page.Claims(set)
	}
	return set.String()
}

// build builds the binaries.
func (c *Config) build(ctx context.Context, _ *parts.Run) (err error) {
	build := cluster.BuildOptions{Progress: os.Stderr}
	if c.Binaries, err = cluster.Build(ctx, build); err != nil {
		return err
	}
	if c.Scheduler, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/scheduler"); err != nil {
		return err
	}
	if c.Extender, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/extender"); err != nil {
		return err
	}
	c.Controller, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/controller")
	return err
}

// Pods is Run in the form in which results are stored.
func Pods(ctx context.Context, c Config) (*benchfmt.Result, error) {
	one, err := Run(ctx, c)
	if err != nil {
		return nil, err
	}
	parts.Progress("%.2f/s, p50 %.3gs, %d of %d", one.Throughput(), one.P50, one.Done, one.Asked)
	return one.Line(c.Workload, c.Arm), nil
}

// rounds runs all arms in turn, round by round. The results are in the order of the arms.
func (c Config) rounds(ctx context.Context, w Workload, rounds int, run func(context.Context, Config) (*benchfmt.Result, error)) (measured figures.Set, err error) {
	err = c.prepared(ctx, w, func(c Config) error {
		measured, err = parts.Rounds(rounds, w.Arms, func(round int, share Share) (*benchfmt.Result, error) {
			c := c
			c.Arm, c.Round, c.Pods = share.Arm, round, share.Pods
			if w.KubeScheduler && share.Arm != Direct {
				c.Scheduler = "" // the control plane's own
			}
			return run(ctx, c)
		})
		return err
	})
	return measured, err
}

// prepared makes a workload's nodes and volumes, with which all its runs begin.
func (c Config) prepared(ctx context.Context, w Workload, do func(Config) error) (err error) {
	dir, err := os.MkdirTemp("", "stowage-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c.Workload = w
	folder := filepath.Join(dir, "etcd")
	if err := Prepare(ctx, c, folder); err != nil {
		return err
	}
	c.Prepared = folder
	return do(c)
}
