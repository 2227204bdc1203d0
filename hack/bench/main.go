// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the stock plugin and ours side by side on whole
// clusters, and writes docs/benchmarks.json and docs/benchmarks.md.
//
//	go run ./hack/bench                               every workload, 3 rounds
//	go run ./hack/bench -workloads static-500,single  some, whose old figures are replaced
//	go run ./hack/bench -quick                        a small set, within 10 minutes on 2 CPUs
//	go run ./hack/bench -list                         what there is
//
// "make bench" and "make bench-quick" run it. Figures of quick runs are printed
// and not stored.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/test/perf/bench"
)

type options struct {
	workloads  []bench.Workload
	rounds     int
	list       bool
	json, page string // empty: not stored
	look       bench.Look
	command    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	klog.SetLogger(logr.Discard()) // clients complain when a cluster ends
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	names := flags.String("workloads", "", "names of workloads, with commas between; empty: all")
	quick := flags.Bool("quick", false, "the quick set, one round unless -rounds is given; stores nothing")
	flags.IntVar(&o.rounds, "rounds", 0, "how often each arm runs; 0: 3")
	flags.BoolVar(&o.list, "list", false, "list the workloads")
	flags.StringVar(&o.json, "json", "docs/benchmarks.json", "where figures are stored")
	flags.StringVar(&o.page, "page", "docs/benchmarks.md", "where they are shown")
	flags.StringVar(&o.look.Folder, "look", "", "folder for the scheduler's profiles and logs; figures are then not stored")
	flags.IntVar(&o.look.Verbosity, "v", 0, "verbosity of the scheduler's log")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q: workloads are picked by -workloads", flags.Arg(0))
	}
	if o.rounds < 0 {
		return o, fmt.Errorf("-rounds is %d: it must be at least 1", o.rounds)
	}
	if o.workloads, err = pick(*names, *quick); err != nil {
		return o, err
	}
	o.command = "make bench"
	if *quick {
		o.command, o.json, o.page = "make bench-quick", "", ""
	}
	if o.look != (bench.Look{}) {
		o.json, o.page = "", "" // to look costs speed
	}
	if *names != "" {
		o.command += " WORKLOADS=" + *names
	}
	if o.rounds == 0 {
		o.rounds = 3
		if *quick {
			o.rounds = 1
		}
	} else {
		o.command += fmt.Sprintf(" ROUNDS=%d", o.rounds)
	}
	return o, nil
}

// pick finds workloads by name, in the order in which they are shown.
func pick(names string, quick bool) ([]bench.Workload, error) {
	all := bench.Workloads()
	if names == "" {
		return slices.DeleteFunc(all, func(w bench.Workload) bool { return quick && !w.Quick }), nil
	}
	wanted := strings.Split(names, ",")
	var picked []bench.Workload
	for _, w := range all {
		if i := slices.Index(wanted, w.Name); i >= 0 {
			picked = append(picked, w)
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("no workload is called %q; these are: %s", wanted[0], strings.Join(nameAll(all), ", "))
	}
	return picked, nil
}

func nameAll(workloads []bench.Workload) []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	return names
}
