// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/test/perf/figures"
)

// Result is the result of one arm in one round. Figures that were not measured are 0.
type Result struct {
	// Pods that were created, and how many of them were done (bound, or refused
	// where that is expected) in time. Fewer than Asked: the arm was stopped.
	Asked, Done int
	// Seconds from the first pod's creation to the last one done.
	Seconds float64
	// Latency of the pods that were done, from creation to binding, in seconds.
	P50, P99 float64
	// CPU seconds, user and system, from the first pod's creation to the last one done.
	SchedulerCPU, PVControllerCPU, ExtenderCPU float64
	// PeakMemory of the scheduler in bytes: its largest resident set, start-up included.
	PeakMemory int64
	// Writes are the API requests of scheduler and PV controller, without events, that changed an
	// object (2xx) until all volumes were Bound, Conflicts those refused with 409.
	Writes, Conflicts int
	// GivenTwice counts volumes that two claims name, or claims whose volume
	// names another. Anything but 0 is a fault.
	GivenTwice int
	// FilterMean is the mean duration of the Filter extension point of volumes
	// per node in seconds, from the scheduler's own metrics.
	FilterMean float64
	// Binds are the extender's calls to bind by outcome: bound, conflict, error.
	Binds map[string]int
}

// Throughput is pods done per second.
func (r Result) Throughput() float64 { return float64(r.Done) / r.Seconds }

// Line is the result in the form in which it is stored.
func (r Result) Line(w Workload, arm Arm) *benchfmt.Result {
	perPod := func(v float64) float64 { return v / float64(r.Done) }
	values := []figures.Value{
		{Value: r.Throughput(), Unit: "pods/s"}, {Value: float64(r.Asked), Unit: "asked"}, {Value: r.Seconds, Unit: "sec"},
		{Value: figures.Measured(r.P50), Unit: "p50-sec"}, {Value: figures.Measured(r.P99), Unit: "p99-sec"},
		{Value: figures.Measured(perPod(r.SchedulerCPU)), Unit: "cpu-sec/pod"}, {Value: figures.Measured(perPod(r.ExtenderCPU)), Unit: "extender-cpu-sec/pod"},
		{Value: figures.Measured(perPod(r.PVControllerCPU)), Unit: "pv-controller-cpu-sec/pod"}, {Value: figures.Measured(float64(r.PeakMemory)), Unit: "peak-B"},
		{Value: perPod(float64(r.Writes)), Unit: "writes/pod"}, {Value: perPod(float64(r.Conflicts)), Unit: "409s/pod"},
		{Value: figures.Measured(r.FilterMean), Unit: "filter-sec"}, {Value: float64(r.GivenTwice), Unit: "given-twice"},
	}
	binds := 0
	for _, n := range r.Binds {
		binds += n
	}
	if binds > 0 {
		values = append(values, figures.Value{Value: float64(binds), Unit: "binds"},
			figures.Value{Value: float64(r.Binds["conflict"]), Unit: "bind-conflicts"}, figures.Value{Value: float64(r.Binds["error"]), Unit: "bind-errors"})
	}
	return figures.Line(figures.Arm(w.Prefix(), string(arm)), r.Done, values...)
}
