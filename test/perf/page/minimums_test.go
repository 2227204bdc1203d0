// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/figures"
)

// of returns rounds of an arm with 100 requested pods, and one figure each.
func of(workload, name, unit string, rounds ...float64) figures.Set {
	return done100(arm(workload, name), 100, unit, rounds...)
}

// ofClaims is of for claims without pods, among as many volumes.
func ofClaims(volumes int, arm string, rounds ...float64) figures.Set {
	return done100(figures.Arm(fmt.Sprintf("Claims/volumes=%d", volumes), arm), 100, "claims/s", rounds...)
}

func done100(name string, done int, unit string, rounds ...float64) (s figures.Set) {
	for _, v := range rounds {
		s = append(s, figures.Line(name, done, figures.Value{Value: v, Unit: unit}, figures.Value{Value: 100, Unit: "asked"}))
	}
	return s
}

func TestMinimums(t *testing.T) {
	t.Parallel()
	const throughput = "pods/s, static-500: stowage / stock"
	const upstream = "scheduler_perf, volumes/A: stowage / stock"
	a, b := "SchedulerPerf/volumes/A/arm=stock", "SchedulerPerf/volumes/A/arm=stowage"
	withWrites := func(refused float64) figures.Set {
		s := of("static-500", Stowage, "writes/pod", 6, 6, 6)
		for _, r := range s {
			r.Values = append(r.Values, figures.Value{Value: refused, Unit: "409s/pod"})
		}
		return s
	}
	for scenario, test := range map[string]struct {
		name string
		set  figures.Set
		want Minimum
	}{
		"nothing measured": {throughput, nil, Minimum{Measured: "–", Outcome: NotMeasured}},
		"the bound is reached exactly": {
			throughput, slices.Concat(of("static-500", Stowage, "pods/s", 150, 150, 150), of("static-500", Stock, "pods/s", 1, 1, 1)),
			Minimum{Measured: "150×", Rounds: 3, Outcome: Met},
		},
		"too slow": {
			throughput, slices.Concat(of("static-500", Stowage, "pods/s", 75, 75, 75), of("static-500", Stock, "pods/s", 1, 1, 1)),
			Minimum{Measured: "75×", Rounds: 3, Outcome: Missed},
		},
		"stock did not run": {throughput, of("static-500", Stowage, "pods/s", 75), Minimum{Measured: "–", Outcome: NotMeasured}},
		"stock was stopped: its pods count": {
			throughput, slices.Concat(of("static-500", Stowage, "pods/s", 200, 200, 200), done100(arm("static-500", Stock), 10, "pods/s", 1, 1, 1)),
			Minimum{Measured: "200×", Rounds: 3, Outcome: Met},
		},
		"fast, but some pods were never done": {
			throughput, slices.Concat(done100(arm("static-500", Stowage), 99, "pods/s", 990), of("static-500", Stock, "pods/s", 1)),
			Minimum{Measured: "990×", Rounds: 1, Outcome: Missed, Note: "stowage did not get all pods done"},
		},
		"one round is too few to be sure": {
			throughput, slices.Concat(of("static-500", Stowage, "pods/s", 200), of("static-500", Stock, "pods/s", 1, 1, 1)),
			Minimum{Measured: "200×", Rounds: 1, Outcome: Met, Note: "in fewer than 3 rounds"},
		},
		"claims without pods: beside the PV controller": {
			"claims/s, 5,000 volumes: stowage-inPlace / PV controller", slices.Concat(
				ofClaims(5000, inPlace, 60, 60, 60), ofClaims(5000, pvController, 5, 5, 5), ofClaims(100, pvController, 60, 60, 60)),
			Minimum{Measured: "12×", Rounds: 3, Outcome: Met},
		},
		"claims without pods: some were not bound": {
			"claims/s, 5,000 volumes: stowage-bindNow / write ceiling", slices.Concat(
				done100("Claims/volumes=5000/arm=stowage-bindNow", 99, "claims/s", 90), ofClaims(5000, ceiling, 100)),
			Minimum{Measured: "0.900×", Rounds: 1, Outcome: Missed, Note: "stowage did not get all pods done"},
		},
		"growth: each size by its own ceiling": {
			"pods/s / write ceiling: static-5000 / static-500", slices.Concat(
				of("static-5000", Stowage, "pods/s", 60, 60, 60), of("static-5000", ceiling, "pods/s", 100, 100, 100),
				of("static-500", Stowage, "pods/s", 150, 150, 150), of("static-500", ceiling, "pods/s", 200, 200, 200)),
			Minimum{Measured: "0.800×", Rounds: 3, Outcome: Met},
		},
		"growth: the smaller size was not measured": {
			"pods/s / write ceiling: static-5000 / static-500", slices.Concat(of("static-5000", Stowage, "pods/s", 60), of("static-5000", ceiling, "pods/s", 100)),
			Minimum{Measured: "–", Outcome: NotMeasured},
		},
		"more memory than allowed": {
			"peak memory, memory-5000: stowage / stock", slices.Concat(of("memory-5000", Stowage, "peak-B", 156, 156, 156), of("memory-5000", Stock, "peak-B", 100, 100, 100)),
			Minimum{Measured: "1.56×", Rounds: 3, Outcome: Missed},
		},
		"no conflict at all is measured, not lacking": {"409s, static-500: stowage, of its writes", withWrites(0), Minimum{Measured: "0.0 %", Rounds: 3, Outcome: Met}},
		"too many conflicts":                          {"409s, static-500: stowage, of its writes", withWrites(0.36), Minimum{Measured: "6.0 %", Rounds: 3, Outcome: Missed}},
		"a volume given twice, in one round of any workload": {
			"volumes given twice, all workloads", slices.Concat(of("bound", Stowage, "given-twice", 0, 0, 0), of("modes", "stowage-PVController", "given-twice", 1)),
			Minimum{Measured: "1", Rounds: 1, Outcome: Missed},
		},
		"stock's faults are not Stowage's": {
			"volumes given twice, all workloads", slices.Concat(of("bound", Stowage, "given-twice", 0), of("bound", Stock, "given-twice", 1)),
			Minimum{Measured: "0", Rounds: 1, Outcome: Met},
		},
		"upstream: two rounds are too few":     {upstream, slices.Concat(done100(a, 100, "pods/s", 100, 100), done100(b, 100, "pods/s", 100, 100)), Minimum{Measured: "1×", Rounds: 2, Outcome: Met, Note: "in fewer than 3 rounds"}},
		"upstream: as fast, one round was bad": {upstream, slices.Concat(done100(a, 100, "pods/s", 100, 100, 100), done100(b, 100, "pods/s", 100, 50, 100)), Minimum{Measured: "1×", Rounds: 3, Outcome: Met}},
		"upstream: slower, but stock varies as much": {
			upstream, slices.Concat(done100(a, 100, "pods/s", 100, 80, 100), done100(b, 100, "pods/s", 90, 80, 80)),
			Minimum{Measured: "0.900×", Rounds: 3, Outcome: Met, Note: "the intervals overlap"},
		},
		"upstream: slower in all rounds": {upstream, slices.Concat(done100(a, 100, "pods/s", 100, 100, 100), done100(b, 100, "pods/s", 80, 80, 90)), Minimum{Measured: "0.800×", Rounds: 3, Outcome: Missed}},
		"a provisioner that scanned nothing": {
			"provisioner at rest: requests of devices", figures.Set{figures.Line("Rest", 1, figures.Value{Value: 0, Unit: "scans"}, figures.Value{Value: 0, Unit: "requests"})},
			Minimum{Measured: "–", Outcome: NotMeasured},
		},
		"below a maximum": {"disk appears → Available, longest: tmpfs", figures.Set{figures.Line("Appear/disk=tmpfs", 30, figures.Value{Value: 1, Unit: "max-sec"})}, Minimum{Measured: "1 s", Rounds: 1, Outcome: Missed}},
		"calls grow with the cluster": {
			"plugin, Score: largest / smallest cluster", figures.Set{
				figures.Line("Plugin/nodes=1000", 100, figures.Value{Value: 100e-9, Unit: "Score-sec"}), figures.Line("Plugin/nodes=65000", 100, figures.Value{Value: 151e-9, Unit: "Score-sec"}),
			},
			Minimum{Measured: "1.51×", Rounds: 1, Outcome: Missed},
		},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			all := Minimums(test.set)
			i := slices.IndexFunc(all, func(m Minimum) bool { return m.Name == test.name })
			if i < 0 {
				t.Fatalf("no minimum %q", test.name)
			}
			got := all[i]
			got.Name, got.Want = "", ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.name, diff)
			}
		})
	}
}
