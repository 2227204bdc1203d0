// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/bench"
	"stowage.dev/stowage/test/perf/extender/figures"
	"stowage.dev/stowage/test/perf/result"
	"stowage.dev/stowage/test/perf/source"
)

// runner is one run.
type runner struct {
	*options
	binaries            cluster.Binaries
	scheduler, extender string
	source              result.Source
	file                figures.File
}

// measure runs one part after the other, and stores each when it is done.
func measure(ctx context.Context, o *options) (err error) {
	r := &runner{options: o}
	build := cluster.BuildOptions{Progress: os.Stderr}
	if r.binaries, err = cluster.Build(ctx, build); err != nil {
		return err
	}
	if r.scheduler, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/scheduler"); err != nil {
		return err
	}
	if r.extender, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/extender"); err != nil {
		return err
	}
	if r.source, err = source.Describe(ctx, o.command); err != nil {
		return err
	}
	if o.out != "" {
		if r.file, err = figures.Load(o.out); err != nil {
			return err
		}
	}
	if err := r.part(ctx, filter, r.filter); err != nil {
		return err
	}
	for _, w := range bench.ExtenderWorkloads() {
		do := func(ctx context.Context, c figures.Circumstances) error { return r.workload(ctx, w, c) }
		if err := r.part(ctx, w.Name, do); err != nil {
			return err
		}
	}
	if o.out == "" {
		fmt.Print(r.file.Page())
	}
	return nil
}

// part measures something if it was asked for.
func (r *runner) part(ctx context.Context, name string, do func(context.Context, figures.Circumstances) error) error {
	if !slices.Contains(r.only, name) {
		return nil
	}
	begin := time.Now()
	c := figures.Circumstances{Source: r.source, Load: load()}
	c.Source.Time = begin.UTC().Truncate(time.Second)
	if err := do(ctx, c); err != nil {
		return fmt.Errorf("measure %s: %w", name, err)
	}
	fmt.Printf("%s: measured in %s\n", name, time.Since(begin).Round(time.Second))
	if r.out == "" {
		return nil
	}
	return r.file.Store(r.out)
}

// load is the machine's load average over a minute; 0 where it cannot be read.
func load() float64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	average, err := proc.LoadAvg()
	if err != nil {
		return 0
	}
	return average.Load1
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", args...) }

// workload runs all arms in turn, round by round.
func (r *runner) workload(ctx context.Context, w bench.Workload, c figures.Circumstances) error {
	measured := figures.Workload{Workload: w.Result(), Load: c.Load}
	measured.Source = c.Source
	err := r.prepared(ctx, w, func(folder string) error {
		for round := 1; round <= r.rounds; round++ {
			arms := slices.Clone(w.Arms)
			if round%2 == 0 {
				slices.Reverse(arms) // so that no arm is always the first
			}
			for _, share := range arms {
				progress("%s, round %d: %s", w.Name, round, share.Arm)
				one, err := bench.Run(ctx, bench.Config{
					Workload: w, Arm: share.Arm, Round: round, Pods: share.Pods, Prepared: folder,
					Binaries: r.binaries, Scheduler: r.schedulerOf(share.Arm), Extender: r.extender, Progress: progress,
				})
				if err != nil {
					return fmt.Errorf("%s, round %d: %w", share.Arm, round, err)
				}
				progress("%.1f pods/s, binds %v", one.Throughput(), one.Binds)
				measured.Runs = append(measured.Runs, one)
			}
		}
		return nil
	})
	if err == nil {
		r.file.Put(measured)
	}
	return err
}

// schedulerOf is the plugin's own scheduler, and kube-scheduler itself for the others.
func (r *runner) schedulerOf(arm result.Arm) string {
	if arm == result.Direct {
		return r.scheduler
	}
	return ""
}

// prepared makes a workload's nodes and volumes, stored in a folder.
func (r *runner) prepared(ctx context.Context, w bench.Workload, do func(folder string) error) (err error) {
	dir, err := os.MkdirTemp("", "stowage-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	folder := filepath.Join(dir, "etcd")
	if err := bench.Prepare(ctx, bench.Config{Workload: w, Binaries: r.binaries, Progress: progress}, folder); err != nil {
		return err
	}
	return do(folder)
}
