// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"stowage.dev/stowage/test/perf/result"
)

// sampled has an arm's results in the sample: its pods, and its figures in an average
// round.
type sampled struct {
	arm                            result.Arm
	asked, done                    int
	throughput, p50, cpu, pvCPU    float64
	memoryMiB, writes, conflicts   float64 // writes and conflicts: per pod
	givenTwice, rounds, filterNano int
}

// runs makes up rounds that differ by some percent.
func (s sampled) runs() []result.Run {
	runs := make([]result.Run, 0, s.rounds)
	for round := 1; round <= s.rounds; round++ {
		slower := 1 + 0.03*float64(round-2)
		pods := float64(s.done)
		r := result.Run{
			Arm: s.arm, Round: round, Asked: s.asked, Done: s.done,
			P50: s.p50 * slower, P99: 2.2 * s.p50 * slower,
			SchedulerCPU: s.cpu * pods * slower, PVControllerCPU: s.pvCPU * pods,
			PeakMemory: int64(s.memoryMiB * mebibyte * slower),
			Writes:     int(s.writes * pods), Conflicts: int(s.conflicts * pods),
			FilterMean: float64(s.filterNano) * 1e-9,
		}
		if s.throughput > 0 {
			r.Seconds = pods / s.throughput * slower
		}
		if round == 1 {
			r.GivenTwice = s.givenTwice
		}
		runs = append(runs, r)
	}
	return runs
}

func runsOf(arms ...sampled) []result.Run {
	var runs []result.Run
	for _, arm := range arms {
		runs = append(runs, arm.runs()...)
	}
	return runs
}

// sample is a made-up file with all cases of a page: an arm that
// was stopped, one without results, missing arms and figures, a fault,
// a single round, and workloads of other days.
func sample() result.File {
	day := time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC)
	source := result.Source{
		Time: day, Command: "make bench", Version: "v0.0.1", Kubernetes: "v1.37.1", Go: "go1.26.0",
		CPU: "Imaginary CPU", CPUs: 2, Memory: 24 << 30, System: "Linux 0.0",
	}
	later, quick := source, source
	later.Time = day.Add(time.Hour)
	quick.Command = "make bench-quick"
	return result.File{Workloads: []result.Workload{{
		Name: "static-500", Title: "Static volumes, all pods at once", Group: "static, 1 claim", Source: source,
		Nodes: 500, VolumesPerNode: 10, ClaimsPerPod: 1,
		Runs: runsOf(
			sampled{arm: result.Stock, asked: 30, done: 28, throughput: 0.42, p50: 43.8, cpu: 3.6, pvCPU: 0.004, memoryMiB: 310, writes: 7.1, conflicts: 0.2, rounds: 3, filterNano: 2_400_000},
			sampled{arm: result.Direct, asked: 2000, done: 2000, throughput: 118, p50: 8.1, cpu: 0.0061, pvCPU: 0.0042, memoryMiB: 290, writes: 6, conflicts: 0.389, rounds: 3, filterNano: 1_900},
			sampled{arm: result.Ceiling, asked: 2000, done: 2000, throughput: 181, p50: 5.2, cpu: 0.0022, writes: 6, rounds: 3},
		),
	}, {
		Name: "static-5000", Title: "Static volumes, all pods at once", Group: "static, 1 claim", Source: later,
		Nodes: 5000, VolumesPerNode: 10, ClaimsPerPod: 1,
		Runs: runsOf(
			sampled{arm: result.Stock, asked: 10, rounds: 1},
			sampled{arm: result.Direct, asked: 2000, done: 2000, throughput: 93.5, p50: 10.3, cpu: 0.0093, pvCPU: 0.0049, memoryMiB: 1460, writes: 6, rounds: 1},
			sampled{arm: result.Ceiling, asked: 2000, done: 2000, throughput: 170, p50: 5.5, cpu: 0.0022, writes: 6, rounds: 1},
		),
	}, {
		Name: "single", Title: "One pod at a time on an idle cluster", Group: "single", Source: quick,
		Nodes: 50, VolumesPerNode: 2, ClaimsPerPod: 1,
		Runs: runsOf(
			sampled{arm: result.Stock, asked: 20, done: 20, throughput: 0.97, p50: 1.02, cpu: 0.03, memoryMiB: 95, writes: 6, rounds: 3},
			sampled{arm: result.Direct, asked: 100, done: 100, throughput: 29, p50: 0.0331, cpu: 0.0043, memoryMiB: 92, writes: 6, givenTwice: 1, rounds: 3},
		),
	}, {
		Name: "no-claims", Title: "Pods without volumes", Group: "no claims", Source: quick, Nodes: 500,
		Runs: runsOf(sampled{arm: result.Direct, asked: 2000, done: 2000, throughput: 1377, p50: 0.41, cpu: 0.00021, memoryMiB: 180, writes: 1, rounds: 2}),
	}}}
}
