// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Local measures the provisioner on real disks and a real control plane, what many
// provisioners cost the API server, and, if they are named, the controller and listed disks on a large cluster:
//
//	go run ./test/perf/local -only latency,wiping -disks 30              some, printed only
//	go run ./test/perf/local -out docs/benchmarks/provisioner.txt        everything, stored
//
// "make bench-local" runs it. Without root, only what needs no disks is measured.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/provisioners"
)

const (
	// volumes are those of a provisioner at rest.
	volumes = 100
	// resting is how long it is watched.
	resting = 3 * time.Minute
)

// bench has the binaries; provisioner is the stowage-provisioner command.
type bench struct {
	binaries    cluster.Binaries
	provisioner string
}

func main() {
	b := &bench{}
	// disks is a part with one provisioner, which takes root.
	disks := func(name string, do func(context.Context, *parts.Run) (figures.Set, error), prefixes ...string) parts.Part {
		return parts.Part{Name: name, Prefixes: prefixes, Measure: func(ctx context.Context, r *parts.Run) (figures.Set, error) {
			if os.Geteuid() != 0 {
				fmt.Printf("%s: left out, for it takes root to mount and to attach disks\n", name)
				return nil, nil
			}
			return do(ctx, r)
		}}
	}
	parts.Benchmark{
		Name: "bench-local", Only: "ONLY",
		Numbers: []parts.Number{
			{Name: "disks", Usage: "disks of each kind whose latency is measured", Default: 50},
			{Name: "nodes", Usage: "nodes whose disks are listed", Default: 3000},
			{Name: "rounds", Usage: "rounds of watching", Default: 3},
		},
		Open: func(ctx context.Context, _ *parts.Run) (err error) {
			if b.binaries, err = cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr}); err != nil {
				return err
			}
			b.provisioner, err = provisioners.Build(ctx, os.Stderr)
			return err
		},
		Parts: []parts.Part{
			disks("latency", b.latencies, "Appear", "Release"),
			disks("resting", b.resting, "Rest"),
			disks("wiping", b.wiping, "Wipe"),
			{Name: "watching", Prefixes: []string{"Watch"}, Measure: b.watching},
			{Name: "controller", Prefixes: []string{"Controller"}, OnlyNamed: true, Measure: b.controller},
			{Name: "listing", Prefixes: []string{"Listing"}, OnlyNamed: true, Measure: b.listing},
		},
	}.Main()
}
