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

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/bench"
	"stowage.dev/stowage/test/perf/extender/figures"
	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/result"
)

// runner is one run.
type runner struct {
	*parts.Run
	binaries            cluster.Binaries
	scheduler, extender string
	file                figures.File
}

// measure runs one part after the other, and stores each when it is done.
func measure(ctx context.Context, run *parts.Run) (err error) {
	r := &runner{Run: run}
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
	if r.Out != "" {
		if r.file, err = figures.Load(r.Out); err != nil {
			return err
		}
	}
	if err := r.Part(ctx, filter, r.filter, r.file.Store); err != nil {
		return err
	}
	for _, w := range bench.ExtenderWorkloads() {
		do := func(ctx context.Context, c page.Circumstances) error { return r.workload(ctx, w, c) }
		if err := r.Part(ctx, w.Name, do, r.file.Store); err != nil {
			return err
		}
	}
	if r.Out == "" {
		fmt.Print(r.file.Page())
	}
	return nil
}

// workload runs all arms in turn, round by round.
func (r *runner) workload(ctx context.Context, w bench.Workload, c page.Circumstances) error {
	measured := figures.Workload{Workload: w.Result(), Load: c.Load}
	measured.Source = c.Source
	err := r.prepared(ctx, w, func(folder string) error {
		for round := 1; round <= r.Number("rounds"); round++ {
			arms := slices.Clone(w.Arms)
			if round%2 == 0 {
				slices.Reverse(arms) // so that no arm is always the first
			}
			for _, share := range arms {
				parts.Progress("%s, round %d: %s", w.Name, round, share.Arm)
				one, err := bench.Run(ctx, bench.Config{
					Workload: w, Arm: share.Arm, Round: round, Pods: share.Pods, Prepared: folder,
					Binaries: r.binaries, Scheduler: r.schedulerOf(share.Arm), Extender: r.extender, Progress: parts.Progress,
				})
				if err != nil {
					return fmt.Errorf("%s, round %d: %w", share.Arm, round, err)
				}
				parts.Progress("%.1f pods/s, binds %v", one.Throughput(), one.Binds)
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
	if err := bench.Prepare(ctx, bench.Config{Workload: w, Binaries: r.binaries, Progress: parts.Progress}, folder); err != nil {
		return err
	}
	return do(folder)
}
