// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"

	"stowage.dev/stowage/test/perf/result"
)

// glance is a row for each workload: ours against stock.
func glance(f result.File) string {
	g := grid{head: []string{
		"workload", "stock pods/s", "stowage pods/s", "throughput, stowage / stock", "throughput, stowage / write ceiling",
		"latency p50, stock / stowage", "CPU per pod, stock / stowage", "peak memory, stowage / stock", "writes per pod, stowage / stock",
	}}
	var anyCut bool
	for i := range f.Workloads {
		w := &f.Workloads[i]
		anyCut = anyCut || cut(w.Of(result.Stock)) || cut(w.Of(result.Direct))
		g.rows = append(g.rows, []string{
			"[" + w.Name + "](#" + anchor(w.Name) + "): " + w.Title,
			pace(w, result.Stock),
			pace(w, result.Direct),
			times(w.Ratio(result.Direct, result.Stock, result.Run.Throughput)),
			times(w.Ratio(result.Direct, result.Ceiling, result.Run.Throughput)),
			times(w.Ratio(result.Stock, result.Direct, p50)),
			times(w.Ratio(result.Stock, result.Direct, result.Run.CPUPerPod)),
			times(w.Ratio(result.Direct, result.Stock, peakMemory)),
			times(w.Ratio(result.Direct, result.Stock, result.Run.WritesPerPod)),
		})
	}
	text := glanceExplained + "\n" + g.markdown()
	if anyCut {
		text += "\n" + cutExplained
	}
	return text
}

// pace is an arm's median throughput, marked when a run of it was stopped early.
func pace(w *result.Workload, arm result.Arm) string {
	text := number(w.Median(arm, result.Run.Throughput))
	if cut(w.Of(arm)) {
		text += cutMark
	}
	return text
}

// anchor is the link target of a heading on the page. Names of workloads are words
// joined by hyphens.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}
