// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parts is the command of a benchmark with several parts, each measured and stored
// separately: its command line, and the storing of results. Results of an interrupted run are
// kept, up to the last complete part.
package parts

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/perf/benchfmt"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/source"
)

// Benchmark describes the command.
type Benchmark struct {
	// Name is the make target, Only its variable that picks parts.
	Name, Only string
	Parts      []Part
	Numbers    []Number
	// Flags adds flags; nil: none.
	Flags func(*flag.FlagSet)
	// Open prepares what all parts need, Close ends it, also if Open has failed. Both may be nil.
	Open  func(context.Context, *Run) error
	Close func() error
	// Show is the results of a part for a terminal; nil: their lines.
	Show func(figures.Set) string
	// Check judges the results of a part when they are stored; nil: no results are errors.
	Check func(figures.Set) error
}

// Part is measured by itself.
type Part struct {
	Name string
	// Prefixes of the results' names: a run replaces those stored before.
	Prefixes []string
	// Quick parts make up the quick set. OnlyNamed ones are measured only if they are named.
	Quick, OnlyNamed bool
	// Config describes the results further.
	Config  []benchfmt.Config
	Measure func(context.Context, *Run) (figures.Set, error)
}

// Number is a flag, at least 1.
type Number struct {
	Name, Usage    string
	Default, Quick int
}

// Run is one run of a benchmark.
type Run struct {
	out     string
	command string
	parts   []Part
	numbers map[string]*int
}

// Number is the value of a flag.
func (r *Run) Number(name string) int { return *r.numbers[name] }

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

func (b Benchmark) run(ctx context.Context, args []string) (err error) {
	r, err := b.parse(args)
	if err != nil {
		return err
	}
	if b.Close != nil {
		defer func() { err = errors.Join(err, b.Close()) }()
	}
	if b.Open != nil {
		if err := b.Open(ctx, r); err != nil {
			return err
		}
	}
	for _, p := range r.parts {
		if err := b.measure(ctx, r, p); err != nil {
			return fmt.Errorf("measure %s: %w", p.Name, err)
		}
	}
	return nil
}

func (b Benchmark) parse(args []string) (*Run, error) {
	r := &Run{command: "make " + b.Name, numbers: map[string]*int{}}
	var names []string
	for _, p := range b.Parts {
		names = append(names, p.Name)
	}
	flags := flag.NewFlagSet(b.Name, flag.ContinueOnError)
	only := flags.String("only", "", "what to measure, with commas between: "+strings.Join(names, ", ")+"; empty: all")
	quick := flags.Bool("quick", false, "a small set, which is not stored")
	flags.StringVar(&r.out, "out", "", "file that results are stored in; empty: they are only printed")
	for _, n := range b.Numbers {
		r.numbers[n.Name] = flags.Int(n.Name, 0, fmt.Sprintf("%s; 0: %d", n.Usage, n.Default))
	}
	if b.Flags != nil {
		b.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *quick {
		r.out = ""
	}
	wanted := slices.DeleteFunc(strings.Split(*only, ","), func(name string) bool { return name == "" })
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("-only: unknown part %q, allowed are %s", name, strings.Join(names, ", "))
		}
	}
	if len(wanted) > 0 {
		r.command += fmt.Sprintf(" %s=%s", b.Only, *only)
	}
	for _, p := range b.Parts {
		if slices.Contains(wanted, p.Name) || len(wanted) == 0 && !p.OnlyNamed && (p.Quick || !*quick) {
			r.parts = append(r.parts, p)
		}
	}
	for _, n := range b.Numbers {
		switch value := r.numbers[n.Name]; {
		case *value < 0:
			return nil, fmt.Errorf("-%s must be at least 1, or 0 for the default of %d, got %d", n.Name, n.Default, *value)
		case *value > 0:
			r.command += fmt.Sprintf(" %s=%d", strings.ToUpper(n.Name), *value)
		case *quick && n.Quick > 0:
			*value = n.Quick
		default:
			*value = n.Default
		}
	}
	return r, nil
}

// measure measures a part, and prints and stores its results.
func (b Benchmark) measure(ctx context.Context, r *Run, p Part) error {
	config, err := source.Describe(ctx, r.command)
	if err != nil {
		return err
	}
	begin := time.Now()
	Progress("%s", p.Name)
	set, err := p.Measure(ctx, r)
	if err != nil {
		return err
	}
	set.Describe(slices.Concat(p.Config, config)...)
	show := b.Show
	if show == nil {
		show = figures.Set.String
	}
	fmt.Printf("%s, measured in %s:\n%s\n", p.Name, time.Since(begin).Round(time.Second), show(set))
	if r.out != "" && len(set) > 0 {
		if err := r.store(p.Prefixes, set); err != nil {
			return err
		}
	}
	if b.Check == nil {
		return nil
	}
	return b.Check(set)
}

// store replaces the results with these prefixes in the file, and writes the page if it shows the
// file.
func (r *Run) store(prefixes []string, set figures.Set) error {
	stored, err := figures.Load(r.out)
	if err != nil {
		return err
	}
	for _, prefix := range prefixes {
		stored = stored.Replace(prefix, set.Below(prefix))
	}
	if err := stored.Store(r.out); err != nil {
		return err
	}
	if filepath.Dir(r.out) != page.Results {
		return nil
	}
	return page.Write(".")
}

// Rounds measures all arms in turn, round by round, and returns their results in the order of the
// arms. Every second round begins with the last arm, so that none is always the first.
func Rounds[A any](rounds int, arms []A, measure func(round int, arm A) (*benchfmt.Result, error)) (figures.Set, error) {
	byArm := make([]figures.Set, len(arms))
	for round := range rounds {
		for i := range arms {
			if round%2 == 1 {
				i = len(arms) - 1 - i
			}
			Progress("round %d of %d: %v", round+1, rounds, arms[i])
			line, err := measure(round+1, arms[i])
			if err != nil {
				return nil, fmt.Errorf("%v, round %d: %w", arms[i], round+1, err)
			}
			byArm[i] = append(byArm[i], line)
		}
	}
	return slices.Concat(byArm...), nil
}

// Progress prints a progress message.
func Progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", args...) }

// Pass lets time pass.
func Pass(ctx context.Context, long time.Duration) error {
	select {
	case <-time.After(long):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// FreeAddress is an address of this machine without a listener.
func FreeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
