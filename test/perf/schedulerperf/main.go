// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command schedulerperf compares Stowage's scheduler with the stock one by
// upstream's scheduler_perf: a kube-apiserver with a stand-in for the PV
// controller, and the scheduler, all in one process, and an etcd beside it.
//
//	go run ./test/perf/schedulerperf -rounds=5
//
// Two topics: upstream's own workloads with persistent volumes, read unchanged
// from the Kubernetes module that go.mod pins, and config/performance-config.yaml
// of this folder, with claims that wait for their first consumer, which upstream
// has none of.
//
// Metrics of Kubernetes components are global to a process. So each workload
// runs in a separate process, once per arm and round, the arms in turn: this
// command compiles the benchmark of this folder and runs it. It prints the results in the
// Go benchmark format.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
)

// options are the command's flags.
type options struct {
	rounds    int
	workloads string
	large     bool
	out       string
	logs      string
	list      bool
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each arm runs each workload, in turn; it is judged from 3 on whether Stowage keeps up")
	flag.StringVar(&o.workloads, "workloads", "", "regular expression: run the workloads whose name matches, of any size; empty: all of 100 to 1,000 nodes")
	flag.BoolVar(&o.large, "large", false, "also run workloads of more than 1,000 nodes, which take long")
	flag.StringVar(&o.out, "out", "", "file that results are stored in; empty: they are only printed")
	flag.StringVar(&o.logs, "logs", "", "folder to keep the output and scheduler_perf's result files of each run in; empty: kept of none")
	flag.BoolVar(&o.list, "list", false, "print the names of the workloads and do nothing")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := compare(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, o options) error {
	if o.rounds < 1 || flag.NArg() > 0 {
		return fmt.Errorf("want -rounds of at least 1 and no arguments, not -rounds=%d %s", o.rounds, strings.Join(flag.Args(), " "))
	}
	workloads, err := choose(ctx, o)
	if err != nil {
		return err
	}
	if o.list {
		for _, w := range workloads {
			fmt.Println(w.Name())
		}
		return nil
	}
	r, done, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	set, err := measure(ctx, r, workloads, o.rounds)
	if err := errors.Join(err, done()); err != nil {
		return err
	}
	config, err := source.Describe(ctx, command())
	if err != nil {
		return err
	}
	set.Describe(config...)
	fmt.Print(set)
	if o.out != "" {
		var prefixes []string
		for _, w := range workloads {
			prefixes = append(prefixes, w.prefix())
		}
		if err := parts.Store(o.out, prefixes, set); err != nil {
			return err
		}
	}
	return missed(set)
}

// missed is an error that names the workloads on which Stowage does not keep up.
func missed(set figures.Set) error {
	var names []string
	for _, m := range page.Minimums(set) {
		if m.Outcome == page.Missed {
			names = append(names, fmt.Sprintf("%s is %s", m.Name, m.Measured))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("slower than the stock scheduler: %s", strings.Join(names, ", "))
}

// choose lists the workloads that the options select.
func choose(ctx context.Context, o options) ([]workload, error) {
	pick, err := regexp.Compile(o.workloads)
	if err != nil {
		return nil, fmt.Errorf("-workloads: %w", err)
	}
	topics, err := findTopics(ctx)
	if err != nil {
		return nil, err
	}
	var chosen []workload
	for _, t := range topics {
		all, err := t.workloads()
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			if pick.MatchString(w.Name()) && (o.workloads != "" || w.sized(o.large)) {
				chosen = append(chosen, w)
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no workload has a name that matches %q: -list -workloads=/ prints all names", o.workloads)
	}
	return chosen, nil
}

// prepare compiles the benchmark and makes the folder that it runs in. The
// function it returns removes the folder.
func prepare(ctx context.Context, o options) (*runner, func() error, error) {
	binaries, err := cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "stowage-perf-")
	if err != nil {
		return nil, nil, err
	}
	done := func() error { return os.RemoveAll(dir) }
	r := &runner{binary: filepath.Join(dir, "schedulerperf.test"), etcd: binaries.Etcd, dir: dir, logs: o.logs}
	if err := r.compile(ctx); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return r, done, nil
}

// measure runs all workloads round by round, the arms of each in turn; the first
// one alternates with the round.
func measure(ctx context.Context, r *runner, workloads []workload, rounds int) (figures.Set, error) {
	byName := map[string]figures.Set{}
	begin := time.Now()
	for round := 1; round <= rounds; round++ {
		for _, w := range workloads {
			for _, arm := range w.arms(round) {
				fmt.Fprintf(os.Stderr, "%6s  round %d of %d  %-45s %-8s ", time.Since(begin).Round(time.Second), round, rounds, w.Name(), arm)
				one, err := r.run(ctx, w, arm)
				if err != nil {
					fmt.Fprintln(os.Stderr)
					return nil, err
				}
				line := one.line(w, arm)
				byName[string(line.Name)] = append(byName[string(line.Name)], line)
				fmt.Fprintf(os.Stderr, "%7.1f pods/s\n", line.Values[0].Value)
			}
		}
	}
	var set figures.Set
	for _, w := range workloads {
		for _, arm := range []string{page.Stock, page.Stowage} {
			set = append(set, byName[figures.Arm(w.prefix(), arm)]...)
		}
	}
	return set, nil
}

// arms are those that run the workload.
func (w workload) arms(round int) []string {
	switch {
	case w.stockTooSlow():
		return []string{page.Stowage}
	case round%2 == 0:
		return []string{page.Stowage, page.Stock}
	}
	return []string{page.Stock, page.Stowage}
}

// command is how to do the same again.
func command() string {
	return strings.Join(slices.DeleteFunc(append([]string{"go run ./" + folder}, os.Args[1:]...), func(arg string) bool {
		return strings.HasPrefix(arg, "-out=")
	}), " ")
}
