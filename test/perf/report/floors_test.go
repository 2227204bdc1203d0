// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/result"
)

// arm is one arm's three rounds of 100 pods with the same figures.
func arm(name result.Arm, run result.Run) []result.Run {
	var runs []result.Run
	for round := 1; round <= 3; round++ {
		run.Arm, run.Round = name, round
		if run.Asked == 0 {
			run.Asked, run.Done = 100, 100
		}
		runs = append(runs, run)
	}
	return runs
}

func file(name string, runs ...[]result.Run) result.File {
	w := result.Workload{Name: name}
	for _, r := range runs {
		w.Runs = append(w.Runs, r...)
	}
	return result.File{Workloads: []result.Workload{w}}
}

// verdictOf is a Floor without the fields that are the same for all cases.
type verdictOf struct {
	Figure  string
	Outcome Outcome
	Note    string
}

func TestFloors(t *testing.T) {
	t.Parallel()
	at := func(throughput float64) result.Run { return result.Run{Seconds: 100 / throughput} }
	unmeasured := verdictOf{missing, NotMeasured, ""}
	static5000 := file("static-5000", arm(result.Direct, at(60)), arm(result.Ceiling, at(100)))
	for scenario, test := range map[string]struct {
		floor string
		file  result.File
		want  verdictOf
	}{
		"nothing measured": {
			floor: "throughput, static-500: stowage / stock",
			want:  unmeasured,
		},
		"the floor is reached exactly": {
			floor: "throughput, static-500: stowage / stock",
			file:  file("static-500", arm(result.Direct, at(150)), arm(result.Stock, at(1))),
			want:  verdictOf{"150×", Met, ""},
		},
		"too slow: the result has the difference": {
			floor: "throughput, static-500: stowage / stock",
			file:  file("static-500", arm(result.Direct, at(75)), arm(result.Stock, at(1))),
			want:  verdictOf{"75.0×", Missed, "50.0 % too little"},
		},
		"stock did not run": {
			floor: "throughput, static-500: stowage / stock",
			file:  file("static-500", arm(result.Direct, at(75))),
			want:  unmeasured,
		},
		"stock was stopped: its pods count": {
			floor: "throughput, static-500: stowage / stock",
			file:  file("static-500", arm(result.Direct, at(200)), arm(result.Stock, result.Run{Asked: 100, Done: 10, Seconds: 10})),
			want:  verdictOf{"200×", Met, ""},
		},
		"stock did nothing: no ratio": {
			floor: "throughput, static-500: stowage / stock",
			file:  file("static-500", arm(result.Direct, at(200)), arm(result.Stock, result.Run{Asked: 100})),
			want:  unmeasured,
		},
		"fast, but some pods were never done": {
			floor: "throughput, static-500: stowage / stock",
			file:  file("static-500", arm(result.Direct, result.Run{Asked: 100, Done: 99, Seconds: 0.1}), arm(result.Stock, at(1))),
			want:  verdictOf{"990×", Missed, "stowage did not get all pods done"},
		},
		"ours did nothing: that is measured": {
			floor: "latency p50, single: stock / stowage",
			file:  file("single", arm(result.Direct, result.Run{Asked: 100}), arm(result.Stock, result.Run{P50: 1})),
			want:  verdictOf{"0×", Missed, "stowage did not get all pods done"},
		},
		"one round is too few to be sure": {
			floor: "throughput, static-500: stowage / stock",
			file:  file("static-500", arm(result.Direct, at(200))[:1], arm(result.Stock, at(1))),
			want:  verdictOf{"200×", Met, "but in fewer than 3 rounds"},
		},
		"part of the write ceiling": {
			floor: "throughput, static-500: stowage / write ceiling",
			file:  file("static-500", arm(result.Direct, at(59.9)), arm(result.Ceiling, at(100))),
			want:  verdictOf{"0.599×", Missed, "0.2 % too little"},
		},
		"growth: each size by its own ceiling": {
			floor: "throughput / write ceiling: static-5000 / static-500",
			file: result.File{Workloads: append(static5000.Workloads,
				file("static-500", arm(result.Direct, at(150)), arm(result.Ceiling, at(200))).Workloads...)},
			want: verdictOf{"0.800×", Met, ""},
		},
		"growth: the smaller size was not measured": {
			floor: "throughput / write ceiling: static-5000 / static-500",
			file:  static5000,
			want:  unmeasured,
		},
		"latency of one pod": {
			floor: "latency p50, single: stock / stowage",
			file:  file("single", arm(result.Direct, result.Run{P50: 0.04}), arm(result.Stock, result.Run{P50: 1})),
			want:  verdictOf{"25.0×", Met, ""},
		},
		"CPU per pod, of different numbers of pods": {
			floor: "scheduler CPU per pod, static-500: stock / stowage",
			file: file("static-500", arm(result.Direct, result.Run{SchedulerCPU: 1}),
				arm(result.Stock, result.Run{Asked: 10, Done: 10, SchedulerCPU: 36})),
			want: verdictOf{"360×", Met, ""},
		},
		"both binding modes": {
			floor: "bound claims per second, modes: stowage / stowage, PVController",
			file:  file("modes", arm(result.Direct, at(99)), arm(result.PVController, at(11))),
			want:  verdictOf{"9.00×", Missed, "10.0 % too little"},
		},
		"more memory than allowed": {
			floor: "peak memory, memory-5000: stowage / stock",
			file:  file("memory-5000", arm(result.Direct, result.Run{PeakMemory: 156}), arm(result.Stock, result.Run{PeakMemory: 100})),
			want:  verdictOf{"1.56×", Missed, "20.0 % too much"},
		},
		"memory was not measured": {
			floor: "peak memory, memory-5000: stowage / stock",
			file:  file("memory-5000", arm(result.Direct, result.Run{}), arm(result.Stock, result.Run{})),
			want:  unmeasured,
		},
		"as many writes as stock": {
			floor: "writes per pod, static-500: stowage / stock",
			file:  file("static-500", arm(result.Direct, result.Run{Writes: 600}), arm(result.Stock, result.Run{Writes: 600})),
			want:  verdictOf{"1.00×", Met, ""},
		},
		"no conflict at all is measured, not lacking": {
			floor: "409s, static-500: stowage, of its writes",
			file:  file("static-500", arm(result.Direct, result.Run{Writes: 600})),
			want:  verdictOf{"0 %", Met, ""},
		},
		"too many conflicts": {
			floor: "409s, static-500: stowage, of its writes",
			file:  file("static-500", arm(result.Direct, result.Run{Writes: 600, Conflicts: 36})),
			want:  verdictOf{"6.0 %", Missed, "20.0 % too much"},
		},
		"writes were not counted, so no conflicts either": {
			floor: "409s, static-500: stowage, of its writes",
			file:  file("static-500", arm(result.Direct, result.Run{})),
			want:  unmeasured,
		},
		"a volume given twice, in one round of any workload": {
			floor: "volumes given twice by stowage, all workloads",
			file:  file("bound", arm(result.Direct, result.Run{}), arm(result.PVController, result.Run{GivenTwice: 1})[:1]),
			want:  verdictOf{"1", Missed, "a fault"},
		},
		"stock's faults are not ours": {
			floor: "volumes given twice by stowage, all workloads",
			file:  file("bound", arm(result.Direct, result.Run{}), arm(result.Stock, result.Run{GivenTwice: 1})),
			want:  verdictOf{"0", Met, ""},
		},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			found := false
			for _, floor := range Floors(test.file) {
				if floor.Name != test.floor {
					continue
				}
				found = true
				got := verdictOf{floor.Figure, floor.Outcome, floor.Note}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", floor.Name, diff)
				}
			}
			if !found {
				t.Errorf("no floor %q", test.floor)
			}
		})
	}
}

// TestMissedFloorsAreToldPlainly: the page has the verdict before its table.
func TestMissedFloorsAreToldPlainly(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct {
		outcomes map[Outcome]int
		want     string
	}{
		"some missed": {map[Outcome]int{Met: 5, Missed: 2, NotMeasured: 3}, "**2 of 7 measured floors missed.** 3 not measured yet.\n"},
		"all met":     {map[Outcome]int{Met: 10}, "**10 of 10 measured floors met.**\n"},
		"one missed":  {map[Outcome]int{Missed: 1}, "**1 of 1 measured floor missed.**\n"},
		"none yet":    {map[Outcome]int{NotMeasured: 10}, "None is measured yet.\n"},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			if got := verdict(test.outcomes); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	if page := Markdown(sample()); !strings.Contains(page, "| **missed**, 29.7 % too much |") {
		t.Error("the page does not show the missed floor in bold")
	}
}

// TestBoundsAreWhatTheyAreCalled: a minimum is compared with the figure that it shows.
func TestBoundsAreWhatTheyAreCalled(t *testing.T) {
	t.Parallel()
	for _, r := range rules() {
		want := "0"
		switch number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }; {
		case r.least > 0:
			want = "≥ " + number(r.least) + "×"
		case r.most == 0.05:
			want = "≤ 5 %"
		case r.most > 0:
			want = "≤ " + number(r.most) + "×"
		}
		if r.want != want {
			t.Errorf("%s: shows %q and compares with %q", r.name, r.want, want)
		}
	}
}
