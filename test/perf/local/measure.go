// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/local/agent"
	"stowage.dev/stowage/test/perf/local/figures"
	"stowage.dev/stowage/test/perf/local/fleet"
	"stowage.dev/stowage/test/perf/source"
)

const (
	// volumes are those of an agent at rest.
	volumes = 100
	// resting is how long it is watched.
	resting = 3 * time.Minute
)

// bench is one run.
type bench struct {
	*options
	binaries cluster.Binaries
	agent    string
	file     figures.File
}

// part is something that is measured by itself.
type part struct {
	name  string
	disks bool // takes root
	do    func(*bench, context.Context, figures.Circumstances) error
}

var parts = []part{
	{"latency", true, (*bench).latency},
	{"resting", true, (*bench).resting},
	{"wiping", true, (*bench).wiping},
	{"watching", false, (*bench).watching},
}

func names() []string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

// measure runs the parts one after the other, and stores each when it is done.
func measure(ctx context.Context, o *options) error {
	b := &bench{options: o}
	build := cluster.BuildOptions{Progress: os.Stderr}
	var err error
	if b.binaries, err = cluster.Build(ctx, build); err != nil {
		return err
	}
	if b.agent, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/provisioner"); err != nil {
		return err
	}
	if o.out != "" {
		if b.file, err = figures.Load(o.out); err != nil {
			return err
		}
	}
	from, err := source.Describe(ctx, o.command)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if !slices.Contains(o.only, p.name) {
			continue
		}
		if p.disks && os.Geteuid() != 0 {
			fmt.Printf("%s: left out, for it takes root to mount and to attach disks\n", p.name)
			continue
		}
		c := figures.Circumstances{Source: from, Load: load()}
		c.Source.Time = time.Now().UTC().Truncate(time.Second)
		begin := time.Now()
		if err := p.do(b, ctx, c); err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		fmt.Printf("%s: measured in %s\n", p.name, time.Since(begin).Round(time.Second))
		if o.out != "" {
			if err := b.file.Store(o.out); err != nil {
				return err
			}
		}
	}
	if o.out == "" {
		fmt.Print(b.file.Page())
	}
	return nil
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

// onSite measures with one agent.
func (b *bench) onSite(ctx context.Context, do func(*agent.Site) error) (err error) {
	site, err := agent.Open(ctx, agent.Config{Binaries: b.binaries, Agent: b.agent, Progress: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	return do(site)
}

func (b *bench) latency(ctx context.Context, c figures.Circumstances) error {
	return b.onSite(ctx, func(site *agent.Site) error {
		appearing, releasing, err := site.Latencies(ctx, b.disks)
		if err != nil {
			return err
		}
		appearing.Circumstances, releasing.Circumstances = c, c
		b.file.Appearing, b.file.Releasing = appearing, releasing
		return nil
	})
}

func (b *bench) resting(ctx context.Context, c figures.Circumstances) error {
	return b.onSite(ctx, func(site *agent.Site) error {
		r, err := site.Resting(ctx, volumes, resting)
		if err != nil {
			return err
		}
		r.Circumstances = c
		b.file.Resting = r
		return nil
	})
}

func (b *bench) wiping(ctx context.Context, c figures.Circumstances) error {
	return b.onSite(ctx, func(site *agent.Site) error {
		w, err := site.Wiping(ctx)
		if err != nil {
			return err
		}
		w.Circumstances = c
		b.file.Wiping = w
		return nil
	})
}

func (b *bench) watching(ctx context.Context, c figures.Circumstances) error {
	w, err := fleet.Measure(ctx, fleet.Config{Binaries: b.binaries, Rounds: b.rounds, Progress: progress})
	if err != nil {
		return err
	}
	w.Circumstances = c
	b.file.Watching = w
	return nil
}
