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
	"stowage.dev/stowage/test/perf/local/figures"
	"stowage.dev/stowage/test/perf/parts"
)

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
