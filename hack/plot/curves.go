// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"stowage.dev/stowage/test/perf/result"
)

// The drawings.
const (
	throughputFile = "throughput.svg"
	latencyFile    = "latency.svg"
	cpuFile        = "cpu.svg"
	engineFile     = "engine.svg"
)

// chart is one drawing: panels side by side with the same axes.
type chart struct {
	file           string
	xLabel, yLabel string
	unit           func(float64) string // writes a tick of the y axis
	panels         []panel
}

// panel is a field with curves.
type panel struct {
	title  string
	curves []curve
}

// curve is a figure over the number of nodes, in order.
type curve struct {
	name   string
	style  style
	points []point
}

type point struct {
	x, y float64
	cut  bool // of an arm that was cut off
}

// clusterCharts draws what was measured on whole clusters.
func clusterCharts(f result.File) []chart {
	return []chart{{
		file: throughputFile, xLabel: "nodes", yLabel: "pods per second", unit: number,
		panels: panels(f, result.Run.Throughput),
	}, {
		file: latencyFile, xLabel: "nodes", yLabel: "latency p50, creation to binding", unit: seconds,
		panels: panels(f, func(r result.Run) float64 { return r.P50 }),
	}, {
		file: cpuFile, xLabel: "nodes", yLabel: "scheduler CPU time per pod", unit: seconds,
		panels: panels(f, result.Run.CPUPerPod),
	}}
}

// panels makes a panel of each group of workloads that was measured at two
// numbers of nodes or more, in the order of the file.
func panels(f result.File, figure func(result.Run) float64) []panel {
	var all []panel
	for _, group := range groups(f) {
		p := panel{title: group[0].Group}
		nodes := map[int]bool{}
		for _, arm := range result.Arms {
			c := curve{name: string(arm), style: styleOf(arm)}
			for _, w := range group {
				if y := w.Median(arm, figure); y > 0 {
					cut := slices.ContainsFunc(w.Of(arm), result.Run.Cut)
					c.points = append(c.points, point{x: float64(w.Nodes), y: y, cut: cut})
					nodes[w.Nodes] = true
				}
			}
			if len(c.points) > 0 {
				p.curves = append(p.curves, c)
			}
		}
		if len(nodes) > 1 {
			all = append(all, p)
		}
	}
	return all
}

// groups are the workloads by group, both in the order of the file; those of a
// group by their number of nodes.
func groups(f result.File) [][]*result.Workload {
	var all [][]*result.Workload
	for i := range f.Workloads {
		w := &f.Workloads[i]
		if w.Nodes <= 0 {
			continue
		}
		at := slices.IndexFunc(all, func(group []*result.Workload) bool { return group[0].Group == w.Group })
		if at < 0 {
			at = len(all)
			all = append(all, nil)
		}
		all[at] = append(all[at], w)
	}
	for _, group := range all {
		slices.SortStableFunc(group, func(a, b *result.Workload) int { return cmp.Compare(a.Nodes, b.Nodes) })
	}
	return all
}

// number writes a tick: "5,000", "0.2".
func number(v float64) string {
	if v < 1 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// seconds writes a tick in the unit that reads best: "20 ms".
func seconds(v float64) string {
	name, size := "ns", 1e-9
	for _, unit := range []struct {
		name string
		size float64
	}{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}} {
		if v >= unit.size*(1-1e-9) {
			name, size = unit.name, unit.size
			break
		}
	}
	return strings.TrimSuffix(strconv.FormatFloat(v/size, 'f', 1, 64), ".0") + " " + name
}
