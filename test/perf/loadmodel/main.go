// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Loadmodel measures the VolumeTopology plugin on clusters of up to 65,000 nodes, without
// an API server:
//
//	go run ./test/perf/loadmodel -only 1000,4000 -pods 10000           some sizes, printed only
//	go run ./test/perf/loadmodel -out docs/benchmarks/plugin.txt       all, stored
//
// Package model documents the simulation. "make bench-plugin" runs it.
package main

import (
	"context"
	"runtime/debug"
	"strconv"

	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/loadmodel/model"
	"stowage.dev/stowage/test/perf/parts"
)

func main() {
	debug.SetGCPercent(50) // 65,000 nodes then take 5 GiB instead of 7
	b := parts.Benchmark{
		Name: "bench-plugin", Only: "ONLY",
		Numbers: []parts.Number{{Name: "pods", Usage: "how many pods to place at each size", Default: 100_000}},
	}
	for _, nodes := range []int{1000, 4000, 16000, 65000} {
		mix := model.Default(nodes, 0)
		b.Parts = append(b.Parts, parts.Part{
			Name: strconv.Itoa(nodes), Prefixes: []string{model.Name(nodes)},
			Config: []benchfmt.Config{share("occupied", mix.Occupied), share("four-claims", mix.FourClaims), share("returning", mix.Returning)},
			Measure: func(ctx context.Context, r *parts.Run) (figures.Set, error) {
				cfg := model.Default(nodes, r.Number("pods"))
				cfg.Progress = parts.Progress
				line, err := model.Run(ctx, cfg)
				if err != nil {
					return nil, err
				}
				return figures.Set{line}, nil
			},
		})
	}
	b.Main()
}

func share(key string, v float64) benchfmt.Config {
	return figures.Key(key, strconv.FormatFloat(v, 'g', -1, 64))
}
