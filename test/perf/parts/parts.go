// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parts is the command of a benchmark that has several parts, each measured and stored
// separately: its command line, and the measuring of one part.
//
//	-only a,b     some parts; default all
//	-out FILE     where figures are stored, and the page beside them; default: printed
//	-render FILE  write the page of figures measured before, and measure nothing
//
// and flags for the benchmark's own numbers. The published command runs the same again with
// make: "make bench-local ONLY=wiping DISKS=30".
package parts

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
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/source"
)

// Benchmark describes the command.
type Benchmark struct {
	// Name is of the command, and of "make bench-NAME".
	Name string
	// Parts are the names of all parts.
	Parts   []string
	Numbers []Number
	// Measure measures all parts that Run lets it.
	Measure func(context.Context, *Run) error
	// Render writes the page of stored figures.
	Render func(path string) error
}

// Number is a flag, at least 1.
type Number struct {
	Name, Usage string
	Default     int
}

// Run is one run of a benchmark.
type Run struct {
	// Out is the file of the figures; "": they are only printed.
	Out string
	// Command is how make runs the same again.
	Command string

	render  string
	only    []string
	numbers map[string]int
}

// Number is the value of a flag.
func (r *Run) Number(name string) int { return r.numbers[name] }

// Main runs the command and ends the process if it fails.
func (b Benchmark) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	klog.SetLogger(logr.Discard()) // clients complain when a cluster ends
	err := b.run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func (b Benchmark) run(ctx context.Context, args []string) error {
	r, err := b.parse(args)
	if err != nil {
		return err
	}
	if r.render != "" {
		return b.Render(r.render)
	}
	return b.Measure(ctx, r)
}

func (b Benchmark) parse(args []string) (*Run, error) {
	r := &Run{Command: "make bench-" + b.Name, only: b.Parts, numbers: map[string]int{}}
	flags := flag.NewFlagSet(b.Name, flag.ContinueOnError)
	only := flags.String("only", "", "what to measure, with commas between: "+strings.Join(b.Parts, ", ")+"; empty: all")
	flags.StringVar(&r.Out, "out", "", "file of the figures, as JSON; empty: they are only printed")
	flags.StringVar(&r.render, "render", "", "file of figures to write the page of, without measuring")
	given := map[string]*int{}
	for _, n := range b.Numbers {
		given[n.Name] = flags.Int(n.Name, 0, fmt.Sprintf("%s; 0: %d", n.Usage, n.Default))
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *only != "" {
		r.only = strings.Split(*only, ",")
		r.Command += " ONLY=" + *only
	}
	for _, name := range r.only {
		if !slices.Contains(b.Parts, name) {
			return nil, fmt.Errorf("-only: unknown part %q, allowed are %s", name, strings.Join(b.Parts, ", "))
		}
	}
	for _, n := range b.Numbers {
		switch value := *given[n.Name]; {
		case value < 0:
			return nil, fmt.Errorf("-%s must be at least 1, or 0 for the default of %d, got %d", n.Name, n.Default, value)
		case value == 0:
			r.numbers[n.Name] = n.Default
		default:
			r.numbers[n.Name] = value
			r.Command += fmt.Sprintf(" %s=%d", strings.ToUpper(n.Name), value)
		}
	}
	return r, nil
}

// Part measures a part if it was requested, and stores the figures.
func (r *Run) Part(ctx context.Context, name string, do func(context.Context, page.Circumstances) error, store func(path string) error) error {
	if !slices.Contains(r.only, name) {
		return nil
	}
	c, err := source.Describe(ctx, r.Command)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := do(ctx, page.Circumstances{Source: c, Load: source.Load()}); err != nil {
		return fmt.Errorf("measure %s: %w", name, err)
	}
	fmt.Printf("%s: measured in %s\n", name, time.Since(begin).Round(time.Second))
	if r.Out == "" {
		return nil
	}
	return store(r.Out)
}

// Progress prints a progress message.
func Progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", args...) }
