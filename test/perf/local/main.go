// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Local measures the provisioner on real disks and a real control plane, and what many
// provisioners cost the API server:
//
//	go run ./test/perf/local -out docs/local-benchmarks.json          everything
//	go run ./test/perf/local -only latency,wiping -disks 30           some, printed only
//
// Parts that were not measured stay in the file as they are. A page beside the file
// explains the figures; -render FILE writes only that page, of figures measured before.
// "make bench-local" runs it. Without root, only what needs no disks is measured.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/local/figures"
	"stowage.dev/stowage/test/perf/local/fleet"
	"stowage.dev/stowage/test/perf/local/provisioner"
	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/parts"
)

const (
	// volumes are those of a provisioner at rest.
	volumes = 100
	// resting is how long it is watched.
	resting = 3 * time.Minute
)

// bench is one run.
type bench struct {
	*parts.Run
	binaries cluster.Binaries
	binary   string
	file     figures.File
}

// part is something that is measured by itself.
type part struct {
	name  string
	disks bool // takes root
	do    func(*bench, context.Context, page.Circumstances) error
}

var all = []part{
	{"latency", true, (*bench).latency},
	{"resting", true, (*bench).resting},
	{"wiping", true, (*bench).wiping},
	{"watching", false, (*bench).watching},
}

func names() []string {
	var named []string
	for _, p := range all {
		named = append(named, p.name)
	}
	return named
}

// measure runs the parts one after the other, and stores each when it is done.
func measure(ctx context.Context, run *parts.Run) error {
	b := &bench{Run: run}
	build := cluster.BuildOptions{Progress: os.Stderr}
	var err error
	if b.binaries, err = cluster.Build(ctx, build); err != nil {
		return err
	}
	if b.binary, err = cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/provisioner"); err != nil {
		return err
	}
	if b.Out != "" {
		if b.file, err = figures.Load(b.Out); err != nil {
			return err
		}
	}
	for _, p := range all {
		do := func(ctx context.Context, c page.Circumstances) error { return p.do(b, ctx, c) }
		if p.disks && os.Geteuid() != 0 {
			fmt.Printf("%s: left out, for it takes root to mount and to attach disks\n", p.name)
			continue
		}
		if err := b.Part(ctx, p.name, do, b.file.Store); err != nil {
			return err
		}
	}
	if b.Out == "" {
		fmt.Print(b.file.Page())
	}
	return nil
}

// onSite measures with one provisioner.
func (b *bench) onSite(ctx context.Context, do func(*provisioner.Site) error) (err error) {
	site, err := provisioner.Open(ctx, provisioner.Config{Binaries: b.binaries, Provisioner: b.binary, Progress: parts.Progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	return do(site)
}

func (b *bench) latency(ctx context.Context, c page.Circumstances) error {
	return b.onSite(ctx, func(site *provisioner.Site) error {
		appearing, releasing, err := site.Latencies(ctx, b.Number("disks"))
		if err != nil {
			return err
		}
		appearing.Circumstances, releasing.Circumstances = c, c
		b.file.Appearing, b.file.Releasing = appearing, releasing
		return nil
	})
}

func (b *bench) resting(ctx context.Context, c page.Circumstances) error {
	return b.onSite(ctx, func(site *provisioner.Site) error {
		r, err := site.Resting(ctx, volumes, resting)
		if err != nil {
			return err
		}
		r.Circumstances = c
		b.file.Resting = r
		return nil
	})
}

func (b *bench) wiping(ctx context.Context, c page.Circumstances) error {
	return b.onSite(ctx, func(site *provisioner.Site) error {
		w, err := site.Wiping(ctx)
		if err != nil {
			return err
		}
		w.Circumstances = c
		b.file.Wiping = w
		return nil
	})
}

func (b *bench) watching(ctx context.Context, c page.Circumstances) error {
	w, err := fleet.Measure(ctx, fleet.Config{Binaries: b.binaries, Rounds: b.Number("rounds"), Progress: parts.Progress})
	if err != nil {
		return err
	}
	w.Circumstances = c
	b.file.Watching = w
	return nil
}

func main() {
	parts.Benchmark{
		Name: "local", Parts: names(),
		Numbers: []parts.Number{
			{Name: "disks", Usage: "disks of each kind whose latency is measured", Default: 50},
			{Name: "rounds", Usage: "rounds of watching", Default: 3},
		},
		Measure: measure,
		Render:  figures.Render,
	}.Main()
}
