// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/result"
)

// runs are rounds with these throughputs.
func runs(stock, ours []float64) []figures {
	var all []figures
	for arm, throughputs := range map[result.Arm][]float64{result.Stock: stock, result.Direct: ours} {
		for i, throughput := range throughputs {
			all = append(all, figures{Arm: arm, Round: i + 1, podTimes: podTimes{Pods: 100, Bound: 100, Seconds: 100 / throughput}})
		}
	}
	return all
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		m     measured
		want  verdict
		ratio float64
	}{
		"two rounds say little": {
			m:    measured{Floor: true, Runs: runs([]float64{100, 100}, []float64{100, 100})},
			want: tooFew, ratio: 1,
		},
		"as fast, one round was bad": {
			m:    measured{Floor: true, Runs: runs([]float64{100, 100, 100}, []float64{100, 50, 100})},
			want: kept, ratio: 1,
		},
		"the machine slows down: rounds are compared one by one": {
			m:    measured{Floor: true, Runs: runs([]float64{400, 200, 100}, []float64{400, 200, 100})},
			want: kept, ratio: 1,
		},
		"slower, but stock varies as much": {
			m:    measured{Floor: true, Runs: runs([]float64{100, 80, 100}, []float64{90, 80, 80})},
			want: overlaps, ratio: 0.9,
		},
		"slower in all rounds": {
			m:    measured{Floor: true, Runs: runs([]float64{100, 100, 100}, []float64{80, 80, 90})},
			want: missed, ratio: 0.8,
		},
		"no floor": {
			m:    measured{Runs: runs([]float64{100, 100, 100}, []float64{80, 80, 80})},
			want: notJudged, ratio: 0.8,
		},
		"not run on stock": {
			m:    measured{Runs: runs(nil, []float64{80, 80, 80})},
			want: notJudged,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.m.verdict(); got != test.want {
				t.Errorf("verdict is %q, want %q", got, test.want)
			}
			if got := number(test.m.ratio()); got != number(test.ratio) {
				t.Errorf("ratio is %s, want %s", got, number(test.ratio))
			}
		})
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	r := report{Workloads: []measured{
		{Name: "volumes/A/500Nodes", Nodes: 500, Floor: true, Runs: runs([]float64{100, 90, 110}, []float64{200, 180, 220})},
		{Name: "own/B/500Nodes", Nodes: 500, Runs: runs(nil, []float64{5})},
	}}
	want := []string{
		"| volumes/A/500Nodes | 500 | 100 | 100 (90.0 to 110) | 200 (180 to 220) | 2.00 | yes |  |  |",
		"| own/B/500Nodes | 500 | 100 |  | 5.00 (5.00 to 5.00) |  |  |  |  |",
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(r.table()), "\n")[2:]); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if err := r.missed(); err != nil {
		t.Errorf("missed: %v", err)
	}
}

func TestMissedNamesWorkload(t *testing.T) {
	t.Parallel()
	r := report{Workloads: []measured{{Name: "volumes/A/500Nodes", Floor: true, Runs: runs([]float64{100, 100, 100}, []float64{80, 80, 90})}}}
	if err := r.missed(); err == nil || !strings.Contains(err.Error(), "volumes/A/500Nodes (ratio 0.80)") {
		t.Errorf("missed: %v, want it to name the workload", err)
	}
}
