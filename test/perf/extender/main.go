// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Extender measures stowage-extender on a real control plane: how long a call to filter
// takes, and what whole clusters do with it, beside the plugin and the stock scheduler.
//
//	go run ./test/perf/extender -out docs/extender-benchmarks.json    everything
//	go run ./test/perf/extender -only filter -calls 500               some, printed only
//
// Parts that were not measured stay in the file as they are. A page beside the file
// explains the figures; -render FILE writes only that page, of figures measured before.
// "make bench-extender" runs it, from the top of the repository.
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
	"stowage.dev/stowage/test/perf/extender/figures"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	klog.SetLogger(logr.Discard()) // clients complain when a cluster ends
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	only    []string
	calls   int
	rounds  int
	out     string
	render  string
	command string
}

const filter = "filter"

// names of all that can be measured: the call, and the workloads.
func names() []string {
	all := []string{filter}
	for _, w := range bench.ExtenderWorkloads() {
		all = append(all, w.Name)
	}
	return all
}

func parse(args []string) (*options, error) {
	var o options
	flags := flag.NewFlagSet("extender", flag.ContinueOnError)
	only := flags.String("only", "", "what to measure, with commas between: "+strings.Join(names(), ", ")+"; empty: all")
	flags.IntVar(&o.calls, "calls", 0, "calls to filter of each kind; 0: 1000")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of each workload; 0: 3")
	flags.StringVar(&o.out, "out", "", "file of the figures, as JSON; empty: they are only printed")
	flags.StringVar(&o.render, "render", "", "file of figures to write the page of, without measuring")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.calls < 0 || o.rounds < 0 {
		return nil, errors.New("-calls and -rounds must be at least 1")
	}
	o.command = "make bench-extender"
	o.only = names()
	if *only != "" {
		o.only = strings.Split(*only, ",")
		o.command += " ONLY=" + *only
	}
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("-only: there is no %q, but %s", name, strings.Join(names(), ", "))
		}
	}
	o.calls = o.orElse("CALLS", o.calls, 1000)
	o.rounds = o.orElse("ROUNDS", o.rounds, 3)
	return &o, nil
}

// orElse is a number or its default, and adds it to the command if it is not.
func (o *options) orElse(name string, given, standard int) int {
	if given == 0 {
		return standard
	}
	o.command += fmt.Sprintf(" %s=%d", name, given)
	return given
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.render != "" {
		file, err := figures.Load(o.render)
		if err != nil {
			return err
		}
		return file.Store(o.render)
	}
	return measure(ctx, o)
}
