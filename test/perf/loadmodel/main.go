// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Loadmodel measures the VolumeTopology plugin on clusters of up to internet
// scale, without an API server:
//
//	go run ./test/perf/loadmodel -nodes 1000,4000,16000,65000 -pods 100000 -out docs/loadmodel.json
//
// It prints a table and writes the same as JSON, with a page beside it that
// explains the figures; -render FILE writes only that page, of figures measured
// before. Package model documents the simulation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"

	"stowage.dev/stowage/test/perf/loadmodel/model"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "loadmodel:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	nodes   []int
	pods    int
	out     string
	render  string
	profile string
}

func parse(args []string) (*options, error) {
	var o options
	flags := flag.NewFlagSet("loadmodel", flag.ContinueOnError)
	nodes := flags.String("nodes", "1000,4000,16000,65000", "sizes of cluster to simulate, ten volumes to a node")
	flags.IntVar(&o.pods, "pods", 100_000, "how many pods to place at each size")
	flags.StringVar(&o.out, "out", "", "file to write the figures to, as JSON")
	flags.StringVar(&o.render, "render", "", "file of figures to write the page of, without measuring")
	flags.StringVar(&o.profile, "cpuprofile", "", "file to write a CPU profile of everything to")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for size := range strings.SplitSeq(*nodes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(size))
		if err != nil {
			return nil, fmt.Errorf("-nodes takes numbers separated by commas: %w", err)
		}
		o.nodes = append(o.nodes, n)
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return &o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.render != "" {
		return render(o.render)
	}
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	debug.SetGCPercent(50) // 65,000 nodes then take 5 GiB instead of 7
	r, err := newReport(ctx, o)
	if err != nil {
		return err
	}
	for _, nodes := range o.nodes {
		cfg := model.Default(nodes, o.pods)
		cfg.Progress = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
		point, err := model.Run(ctx, cfg)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
		r.Points = append(r.Points, point)
	}
	r.print(os.Stdout)
	if o.out == "" {
		return nil
	}
	return r.write(o.out)
}
