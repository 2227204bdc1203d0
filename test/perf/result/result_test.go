// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rounds are the runs of an arm, round by round from 1, each with this throughput in
// pods per second.
func rounds(arm Arm, throughputs ...float64) []Run {
	runs := make([]Run, 0, len(throughputs))
	for i, pods := range throughputs {
		runs = append(runs, Run{Arm: arm, Round: i + 1, Asked: 100, Done: 100, Seconds: 100 / pods})
	}
	return runs
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct {
		runs []Run
		want float64
	}{
		"an odd number of rounds: the one in the middle": {
			runs: rounds(Stock, 50, 10, 20), want: 20,
		},
		"an even number of rounds: halfway between the two in the middle": {
			runs: rounds(Stock, 50, 10, 20, 40), want: 30,
		},
		"one round": {
			runs: rounds(Stock, 50), want: 50,
		},
		"no run of this arm": {
			runs: rounds(Direct, 50, 10, 20), want: 0,
		},
		"runs of other arms do not count": {
			runs: append(rounds(Direct, 1000, 2000), rounds(Stock, 5, 4, 10)...), want: 5,
		},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			w := Workload{Runs: test.runs}
			if got := w.Median(Stock, Run.Throughput); got != test.want {
				t.Errorf("median %v, want %v", got, test.want)
			}
		})
	}
}

func TestRatio(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct {
		runs []Run
		want float64
	}{
		"the machine is slow in the second round: rounds are compared one by one": {
			// The ratios are 10, 10 and 4; that of the medians would be 20/2.
			runs: append(rounds(Direct, 100, 10, 20), rounds(Stock, 10, 1, 5)...), want: 10,
		},
		"an even number of rounds": {
			runs: append(rounds(Direct, 100, 20), rounds(Stock, 10, 1)...), want: 15,
		},
		"stock gave up after the first round": {
			runs: append(rounds(Direct, 100, 10, 20), rounds(Stock, 50)...), want: 2,
		},
		"no run of the other arm": {
			runs: rounds(Direct, 100, 10), want: 0,
		},
		"no run at all": {
			want: 0,
		},
		"a round in which stock did nothing is left out": {
			runs: append(rounds(Direct, 100, 100), Run{Arm: Stock, Round: 1, Asked: 100}, Run{Arm: Stock, Round: 2, Asked: 100, Done: 50, Seconds: 10}),
			want: 20,
		},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			w := Workload{Runs: test.runs}
			if got := w.Ratio(Direct, Stock, Run.Throughput); got != test.want {
				t.Errorf("ratio %v, want %v", got, test.want)
			}
		})
	}
}

func TestOfIsByRoundAndLeavesTheWorkloadAlone(t *testing.T) {
	t.Parallel()
	w := Workload{Runs: []Run{{Arm: Stock, Round: 3}, {Arm: Direct, Round: 1}, {Arm: Stock, Round: 1}, {Arm: Stock, Round: 2}}}
	before := append([]Run(nil), w.Runs...)
	want := []Run{{Arm: Stock, Round: 1}, {Arm: Stock, Round: 2}, {Arm: Stock, Round: 3}}
	if diff := cmp.Diff(want, w.Of(Stock)); diff != "" {
		t.Errorf("runs of stock (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, w.Runs); diff != "" {
		t.Errorf("the workload's own runs changed (-before +after):\n%s", diff)
	}
}

func TestFiguresOfARun(t *testing.T) {
	t.Parallel()
	type figures struct {
		Throughput, CPU, Writes, Conflicts, ConflictShare float64
		Cut                                               bool
	}
	for scenario, test := range map[string]struct {
		run  Run
		want figures
	}{
		"all pods done": {
			run:  Run{Asked: 10, Done: 10, Seconds: 4, SchedulerCPU: 5, Writes: 60, Conflicts: 3},
			want: figures{Throughput: 2.5, CPU: 0.5, Writes: 6, Conflicts: 0.3, ConflictShare: 0.05},
		},
		"cut off: figures are of the pods that were done": {
			run:  Run{Asked: 100, Done: 10, Seconds: 4, SchedulerCPU: 5, Writes: 60},
			want: figures{Throughput: 2.5, CPU: 0.5, Writes: 6, Cut: true},
		},
		"cut off before the first pod was done": {
			run:  Run{Asked: 100, SchedulerCPU: 5, Conflicts: 3},
			want: figures{Cut: true},
		},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			r := test.run
			got := figures{
				Throughput: r.Throughput(), CPU: r.CPUPerPod(), Writes: r.WritesPerPod(),
				Conflicts: r.ConflictsPerPod(), ConflictShare: r.ConflictShare(), Cut: r.Cut(),
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	var f File
	f.Put(Workload{Name: "static-100", Title: "first"})
	f.Put(Workload{Name: "static-500", Title: "second"})
	f.Put(Workload{Name: "static-100", Title: "measured again"})
	want := File{Workloads: []Workload{
		{Name: "static-100", Title: "measured again"},
		{Name: "static-500", Title: "second"},
	}}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("a workload measured again keeps its place (-want +got):\n%s", diff)
	}
	if got := f.Find("static-500"); got == nil || got.Title != "second" {
		t.Errorf("found %+v", got)
	}
	if got := f.Find("static-1000"); got != nil {
		t.Errorf("found %+v, which was never put", got)
	}
}

func TestStoredIsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	want := File{Workloads: []Workload{{
		Name: "static-100", Title: "100 nodes", Group: "static, 1 claim",
		Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1,
		Source: Source{
			Time: time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC), Command: "make bench", Version: "v0.1.0",
			Kubernetes: "v1.37.1", Go: "go1.26.0", CPU: "Some CPU", CPUs: 2, Memory: 8 << 30, System: "Linux 6.12",
		},
		Runs: []Run{{
			Arm: Direct, Round: 1, Asked: 100, Done: 99, Seconds: 1.25, P50: 0.012, P99: 0.5,
			SchedulerCPU: 3, PVControllerCPU: 2, PeakMemory: 64 << 20, Writes: 600, Conflicts: 5, GivenTwice: 1, FilterMean: 1e-6,
		}},
	}}}
	path := filepath.Join(t.TempDir(), "benchmarks.json")
	if err := want.Store(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestLoadOfNothingIsEmpty(t *testing.T) {
	t.Parallel()
	got, err := Load(filepath.Join(t.TempDir(), "benchmarks.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(File{}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoadNamesTheFileThatIsBroken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "benchmarks.json")
	if err := os.WriteFile(path, []byte(`{"workloads": [`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name %s", err, path)
	}
}
