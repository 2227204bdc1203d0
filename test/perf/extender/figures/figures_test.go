// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/result"
)

// sample has all parts.
func sample() File {
	source := result.Source{
		Time: time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC), Command: "make bench-extender", Version: "v0.0.1",
		Kubernetes: "v1.37.1", Go: "go1.26.0", CPU: "Imaginary CPU", CPUs: 2, Memory: 24 << 30, System: "Linux 0.0",
	}
	return File{
		Filter: &Filter{Circumstances: page.Circumstances{Source: source, Load: 0.3}, Nodes: 5000, Volumes: 50_000, Memory: 300 << 20, Series: []Series{
			{Name: "1 claim", Millis: []float64{3, 1, 2}, Whole: []float64{5, 4, 3}},
			{Name: "2 claims", Millis: []float64{3, 12}, Whole: []float64{4, 14}},
		}},
		Workloads: []Workload{{Load: 0.5, Workload: result.Workload{
			Name: "sides", Title: "500 pods", Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, Source: source,
			Runs: []result.Run{
				{Arm: result.Stock, Round: 1, Asked: 500, Done: 400, Seconds: 100, P50: 50, P99: 99, SchedulerCPU: 80, Conflicts: 40},
				{Arm: result.Direct, Round: 1, Asked: 500, Done: 500, Seconds: 5, P50: 0.5, P99: 2, SchedulerCPU: 1},
				{Arm: result.ExtenderFull, Round: 1, Asked: 500, Done: 500, Seconds: 10, P50: 1, P99: 8, SchedulerCPU: 2, ExtenderCPU: 3, Binds: map[string]int{"bound": 500, "conflict": 20}},
				{Arm: result.ExtenderFull, Round: 2, Asked: 500, Done: 500, Seconds: 10, P50: 1, P99: 8, SchedulerCPU: 2, ExtenderCPU: 3, Binds: map[string]int{"bound": 500, "error": 20}},
			},
		}}},
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	f := sample()
	got := f.Page()
	for what, want := range map[string]string{
		"a call that is quick enough":    "| filter, p99: 1 claim | < 10 ms | 3.00 ms | met |",
		"one that is not":                "| filter, p99: 2 claims | < 10 ms | 12.0 ms | **missed** |",
		"quantiles are of the series":    "| 1 claim | 3 | 2.00 ms | 3.00 ms | 3.00 ms | 4.00 ms | 5.00 ms |",
		"conflicts are of all rounds":    "| stock + extender, Full | 2 | 1,000 of 1,000 | 50 | 1.00 s | 8.00 s | 10.0 ms | 1,040 | 20 | 1.9 % | 1.00 | 20 | 0.00 | 0 |",
		"without extender are no binds":  "| plugin | 1 | 500 of 500 | 100 | 500.0 ms | 2.00 s | 2.00 ms | – | – | – | – | – | 0.00 | 0 |",
		"an arm that was cut off":        "| stock | 1 | 400 of 500 | 4 |",
		"medians of more than one round": "Figures are medians of the rounds;",
		"memory":                         "start-up included: 300 MiB.",
		"where all comes from, once":     "filter on 2026-01-02 23:30 (load average before: 0.3); sides on 2026-01-02 23:30 (load average before: 0.5), UTC:",
		"the machine":                    "- 2 processors of Imaginary CPU, 24.0 GiB of memory",
		"the command, to be given again": "- `make bench-extender`",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: the page does not say %q:\n%s", what, want, got)
		}
	}
	f.Workloads[0].Runs = f.Workloads[0].Runs[:1]
	if one := f.Page(); !strings.Contains(one, "There was one round") || strings.Contains(one, "medians") {
		t.Errorf("the page of one round speaks of more:\n%s", one)
	}
	if strings.Contains(got, "Advisory |") {
		t.Error("an arm that did not run is shown")
	}
}

func TestWorkloadsAreReplacedByName(t *testing.T) {
	t.Parallel()
	f := sample()
	f.Put(Workload{Workload: result.Workload{Name: "tight"}})
	again := f.Workloads[0]
	again.Load = 2
	f.Put(again)
	var got []string
	for _, w := range f.Workloads {
		got = append(got, fmt.Sprintf("%s %.0f", w.Name, w.Load))
	}
	if diff := cmp.Diff([]string{"sides 2", "tight 0"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPublished: the page shows the figures beside it, and no others.
func TestPublished(t *testing.T) {
	t.Parallel()
	const docs = "../../../../docs/"
	f, err := Load(docs + "extender-benchmarks.json")
	if err != nil {
		t.Fatal(err)
	}
	published, err := os.ReadFile(docs + "extender-benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.Page(), string(published)); diff != "" {
		t.Errorf("docs/extender-benchmarks.md is not what its figures make (-want +got); run go run ./test/perf/extender -render docs/extender-benchmarks.json:\n%s", diff)
	}
}
