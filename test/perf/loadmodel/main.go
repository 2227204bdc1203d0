// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Loadmodel measures the VolumeTopology plugin on clusters of up to 65,000 nodes, without
// an API server:
//
//	go run ./test/perf/loadmodel -only 1000,4000 -pods 10000           some sizes, printed only
//	go run ./test/perf/loadmodel -out docs/benchmarks/plugin.txt       all, stored
//
// "make bench-plugin" runs it.
//
// It simulates a scheduler with the plugin: a cluster of any size in the stores of informers, pods
// that are created, placed and deleted, and a stream of other events. It measures
// the cost of the plugin's calls and the memory of its cache, at sizes
// that no test cluster reaches.
//
// Real are the plugin with its packages (cache, binder), the framework's
// NodeInfo and CycleState, the informers' stores, and kube-scheduler's rules
// for the nodes to visit (how many feasible ones are enough, where the next
// pod's search begins, what PreFilter's narrowing means). Modelled are the
// PV controller, which sets the phases of bound volumes, and the API server: it keeps each
// object in the informer's store and accepts a write only on the version that was read; watch
// events reach the handlers after PreBind, one after another. All calls are made on one thread, whose CPU time is measured:
// what 16 goroutines of kube-scheduler would do in parallel is sequential.
//
// Each run begins in its steady state: a share of all volumes is bound,
// and whenever a pod was placed, others end until that share is reached again. So
// all sizes have the same mix of answers, and their figures are comparable.
package main

import (
	"context"
	"runtime/debug"
	"strconv"

	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
)

func main() {
	debug.SetGCPercent(50) // 65,000 nodes then take 5 GiB instead of 7
	b := parts.Benchmark{
		Name: "bench-plugin", Only: "ONLY",
		Numbers: []parts.Number{{Name: "pods", Usage: "how many pods to place at each size", Default: 100_000}},
	}
	for _, nodes := range []int{1000, 4000, 16000, 65000} {
		mix := Default(nodes, 0)
		b.Parts = append(b.Parts, parts.Part{
			Name: strconv.Itoa(nodes), Prefixes: []string{Name(nodes)},
			Config: []benchfmt.Config{share("occupied", mix.Occupied), share("four-claims", mix.FourClaims), share("returning", mix.Returning)},
			Measure: func(ctx context.Context, r *parts.Run) (figures.Set, error) {
				line, err := Run(ctx, Default(nodes, r.Number("pods")))
				return figures.Set{line}, err
			},
		})
	}
	b.Main()
}

func share(key string, v float64) benchfmt.Config {
	return figures.Key(key, strconv.FormatFloat(v, 'g', -1, 64))
}
