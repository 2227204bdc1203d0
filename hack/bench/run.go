// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/bench"
	"stowage.dev/stowage/test/perf/report"
	"stowage.dev/stowage/test/perf/result"
	"stowage.dev/stowage/test/perf/source"
)

// runner runs workloads one after the other, and stores each when it is done:
// what was measured before an interruption is kept.
type runner struct {
	options
	binaries  cluster.Binaries
	scheduler string
	source    result.Source
}

func run(ctx context.Context, o options) error {
	if o.list {
		for _, w := range o.workloads {
			fmt.Printf("%-22s %s\n", w.Name, w.Title)
		}
		return nil
	}
	r := runner{options: o}
	build := cluster.BuildOptions{Progress: os.Stderr}
	var err error
	if r.binaries, err = cluster.Build(ctx, build); err != nil {
		return err
	}
	if r.scheduler, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/scheduler"); err != nil {
		return err
	}
	if r.source, err = source.Describe(ctx, o.command); err != nil {
		return err
	}
	begin := time.Now()
	for i, w := range o.workloads {
		fmt.Printf("\n[%d/%d] %s: %s\n", i+1, len(o.workloads), w.Name, w.Title)
		if err := r.workload(ctx, w); err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
	}
	fmt.Printf("\n%d workloads in %s.\n", len(o.workloads), time.Since(begin).Round(time.Second))
	if o.page != "" {
		fmt.Printf("Stored in %s, shown in %s; \"make bench-plot\" draws them.\n", o.json, o.page)
	}
	return nil
}

// workload runs all arms in turn, round by round.
func (r *runner) workload(ctx context.Context, w bench.Workload) error {
	prepared, remove, err := r.prepare(ctx, w)
	if err != nil {
		return err
	}
	defer remove()
	measured := w.Result()
	measured.Source = r.source
	measured.Source.Time = time.Now().UTC().Truncate(time.Second)
	for round := 1; round <= r.rounds; round++ {
		arms := slices.Clone(w.Arms)
		if round%2 == 0 {
			slices.Reverse(arms) // so that no arm is always the first
		}
		for _, share := range arms {
			one, err := r.arm(ctx, w, share, round, prepared)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", share.Arm, round, err)
			}
			measured.Runs = append(measured.Runs, one)
		}
	}
	fmt.Print(report.Table(measured))
	return r.store(measured)
}

// prepare makes what all runs of a workload begin with, to be removed after
// them.
func (r *runner) prepare(ctx context.Context, w bench.Workload) (folder string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "stowage-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	begin := time.Now()
	line := newLine("  what all arms begin with   ")
	folder = filepath.Join(dir, "etcd")
	if err := bench.Prepare(ctx, bench.Config{Workload: w, Binaries: r.binaries, Progress: line.show}, folder); err != nil {
		line.end("failed")
		remove()
		return "", nil, err
	}
	line.end(fmt.Sprintf("made in %s", time.Since(begin).Round(time.Second)))
	return folder, remove, nil
}

func (r *runner) arm(ctx context.Context, w bench.Workload, share bench.Share, round int, prepared string) (result.Run, error) {
	begin := time.Now()
	line := newLine(fmt.Sprintf("  round %d/%d  %-22s", round, r.rounds, share.Arm))
	one, err := bench.Run(ctx, bench.Config{
		Workload: w, Arm: share.Arm, Round: round, Pods: share.Pods, Prepared: prepared,
		Binaries: r.binaries, Scheduler: r.scheduler, Look: r.look, Progress: line.show,
	})
	if err != nil {
		line.end("failed")
		return one, err
	}
	line.end(fmt.Sprintf("%.2f/s, p50 %.3gs, %d of %d (%s in all)",
		one.Throughput(), one.P50, one.Done, one.Asked, time.Since(begin).Round(time.Second)))
	return one, nil
}

func (r *runner) store(w result.Workload) error {
	if r.json == "" {
		return nil
	}
	file, err := result.Load(r.json)
	if err != nil {
		return err
	}
	file.Put(w)
	slices.SortStableFunc(file.Workloads, func(a, b result.Workload) int { return place(a.Name) - place(b.Name) })
	if err := file.Store(r.json); err != nil {
		return err
	}
	return report.Write(r.page, file)
}

// place is where a workload is shown; ones that are no more come last.
func place(name string) int {
	all := nameAll(bench.Workloads())
	if i := slices.Index(all, name); i >= 0 {
		return i
	}
	return len(all)
}
