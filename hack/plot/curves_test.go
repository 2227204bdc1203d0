// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot"

	"stowage.dev/stowage/test/perf/result"
)

// workload has a run of so many pods a second by each arm.
func workload(group string, nodes int, arms map[result.Arm]float64) result.Workload {
	w := result.Workload{Group: group, Nodes: nodes}
	for _, arm := range result.Arms {
		if pods, ok := arms[arm]; ok {
			w.Runs = append(w.Runs, result.Run{Arm: arm, Round: 1, Asked: 10, Done: 10, Seconds: 10 / pods})
		}
	}
	return w
}

// drawn is what a panel shows, without how it looks.
type drawn struct {
	Panel, Curve string
	Points       [][2]float64
	Cut          int
}

func allDrawn(panels []panel) []drawn {
	var all []drawn
	for _, p := range panels {
		for _, line := range p.curves {
			d := drawn{Panel: p.title, Curve: line.name}
			for _, at := range line.points {
				d.Points = append(d.Points, [2]float64{at.x, at.y})
				if at.cut {
					d.Cut++
				}
			}
			all = append(all, d)
		}
	}
	return all
}

func TestPanels(t *testing.T) {
	t.Parallel()
	cutOff := workload("a", 500, nil)
	cutOff.Runs = []result.Run{
		{Arm: result.Stock, Round: 1, Asked: 10, Done: 5, Seconds: 10},
		{Arm: result.Direct, Round: 1, Asked: 10, Done: 10, Seconds: 1},
	}
	nothing := workload("a", 500, map[result.Arm]float64{result.Direct: 10})
	nothing.Runs = append(nothing.Runs, result.Run{Arm: result.Stock, Round: 1, Asked: 10})
	for story, test := range map[string]struct {
		workloads []result.Workload
		want      []drawn
	}{
		"sizes in any order become one curve for each arm": {
			workloads: []result.Workload{
				workload("a", 500, map[result.Arm]float64{result.Stock: 0.5, result.Direct: 80}),
				workload("a", 100, map[result.Arm]float64{result.Stock: 5, result.Direct: 100}),
			},
			want: []drawn{
				{Panel: "a", Curve: "stock", Points: [][2]float64{{100, 5}, {500, 0.5}}},
				{Panel: "a", Curve: "stowage", Points: [][2]float64{{100, 100}, {500, 80}}},
			},
		},
		"groups are panels, but for those of one size": {
			workloads: []result.Workload{
				workload("b", 100, map[result.Arm]float64{result.Direct: 50}),
				workload("single", 50, map[result.Arm]float64{result.Direct: 30}),
				workload("a", 100, map[result.Arm]float64{result.Direct: 100}),
				workload("b", 500, map[result.Arm]float64{result.Direct: 40}),
				workload("a", 500, map[result.Arm]float64{result.Direct: 80}),
			},
			want: []drawn{
				{Panel: "b", Curve: "stowage", Points: [][2]float64{{100, 50}, {500, 40}}},
				{Panel: "a", Curve: "stowage", Points: [][2]float64{{100, 100}, {500, 80}}},
			},
		},
		"stock was tried at the smallest size only: a single point": {
			workloads: []result.Workload{
				workload("a", 100, map[result.Arm]float64{result.Stock: 5, result.Direct: 100}),
				workload("a", 500, map[result.Arm]float64{result.Direct: 80}),
			},
			want: []drawn{
				{Panel: "a", Curve: "stock", Points: [][2]float64{{100, 5}}},
				{Panel: "a", Curve: "stowage", Points: [][2]float64{{100, 100}, {500, 80}}},
			},
		},
		"an arm that was cut off is marked": {
			workloads: []result.Workload{workload("a", 100, map[result.Arm]float64{result.Stock: 5, result.Direct: 100}), cutOff},
			want: []drawn{
				{Panel: "a", Curve: "stock", Points: [][2]float64{{100, 5}, {500, 0.5}}, Cut: 1},
				{Panel: "a", Curve: "stowage", Points: [][2]float64{{100, 100}, {500, 10}}},
			},
		},
		"an arm that got nothing done has no point: a logarithm knows no 0": {
			workloads: []result.Workload{workload("a", 100, map[result.Arm]float64{result.Stock: 5, result.Direct: 100}), nothing},
			want: []drawn{
				{Panel: "a", Curve: "stock", Points: [][2]float64{{100, 5}}},
				{Panel: "a", Curve: "stowage", Points: [][2]float64{{100, 100}, {500, 10}}},
			},
		},
		"nothing measured": {},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			got := allDrawn(panels(result.File{Workloads: test.workloads}, result.Run.Throughput))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("panels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEngineChart(t *testing.T) {
	t.Parallel()
	for story, test := range map[string]struct {
		model string
		want  []drawn
	}{
		"points in any order, figures that it does not have, fields that are not drawn": {
			model: `{"command": "x", "points": [
				{"nodes": 65000, "filterNanos": 400, "podNanos": 2000000, "startSeconds": 3},
				{"nodes": 1000, "filterNanos": 250, "podNanos": 1000000}]}`,
			want: []drawn{
				{Curve: "all calls of a pod", Points: [][2]float64{{1000, 1e-3}, {65000, 2e-3}}},
				{Curve: "Filter", Points: [][2]float64{{1000, 2.5e-7}, {65000, 4e-7}}},
			},
		},
		"one size is no growth": {model: `{"points": [{"nodes": 1000, "filterNanos": 250}]}`},
		"no points":             {model: `{}`},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "loadmodel.json")
			if err := os.WriteFile(path, []byte(test.model), 0o600); err != nil {
				t.Fatal(err)
			}
			points, err := loadModel(path)
			if err != nil {
				t.Fatal(err)
			}
			near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9*b && b-a < 1e-9*b })
			if diff := cmp.Diff(test.want, allDrawn(engineChart(points).panels), near); diff != "" {
				t.Errorf("curves (-want +got):\n%s", diff)
			}
		})
	}
}

// labels are the names of ticks; "" has none.
func labels(ticks plot.ConstantTicks) []string {
	var all []string
	for _, tick := range ticks {
		all = append(all, tick.Label)
	}
	return all
}

func TestTicks(t *testing.T) {
	t.Parallel()
	nodes := chart{panels: []panel{{curves: []curve{{points: []point{{x: 100}, {x: 500}, {x: 510}, {x: 5000}}}}}}}
	for story, test := range map[string]struct{ got, want []string }{
		"a short axis names 1, 2 and 5": {
			labels(extent{15, 700}.ticks(number)), []string{"20", "50", "100", "200", "500"},
		},
		"a long one names powers of ten": {
			labels(extent{0.04, 250}.ticks(number)),
			[]string{"", "0.1", "", "", "1", "", "", "10", "", "", "100", ""},
		},
		"seconds have the unit that reads best": {
			labels(extent{0.00015, 0.02}.ticks(seconds)),
			[]string{"200 µs", "500 µs", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms"},
		},
		"nodes are named unless names would touch": {
			labels(nodes.nodeTicks(extent{100, 5000})), []string{"100", "500", "", "5,000"},
		},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.got); diff != "" {
				t.Errorf("ticks (-want +got):\n%s", diff)
			}
		})
	}
}
