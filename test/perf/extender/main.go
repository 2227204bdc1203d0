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
	"stowage.dev/stowage/test/perf/bench"
	"stowage.dev/stowage/test/perf/extender/figures"
	"stowage.dev/stowage/test/perf/parts"
)

func main() {
	parts.Benchmark{
		Name: "extender", Parts: names(),
		Numbers: []parts.Number{
			{Name: "calls", Usage: "calls to filter of each kind", Default: 1000},
			{Name: "rounds", Usage: "rounds of each workload", Default: 3},
		},
		Measure: measure,
		Render:  figures.Render,
	}.Main()
}

const filter = "filter"

// names of all measurements: the call, and the workloads.
func names() []string {
	all := []string{filter}
	for _, w := range bench.ExtenderWorkloads() {
		all = append(all, w.Name)
	}
	return all
}
