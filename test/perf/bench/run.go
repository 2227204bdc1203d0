// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/perf/benchfmt"
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/source"
)

// Config configures Run.
type Config struct {
	Workload Workload
	Arm      Arm
	Round    int
	// Pods to create.
	Pods int
	// Prepared is a folder that Prepare made for the workload.
	Prepared string
	// Binaries of the control plane, the scheduler's (empty: the control plane's own) and,
	// for arms that have them, the extender's and stowage-controller's.
	Binaries   cluster.Binaries
	Scheduler  string
	Extender   string
	Controller string
	// Profile is what to record of the processes; the zero value: nothing.
	Profile Profile
	// Progress receives short progress messages; it must not be nil.
	Progress func(format string, args ...any)
}

// warmUp is how many pods are scheduled before the load begins.
const warmUp = 1

// Prepare makes the nodes and volumes of a workload, with which each of its runs
// then begins, and stores them in a folder that must not exist yet. Of the
// configuration it uses Workload, Binaries and Progress.
func Prepare(ctx context.Context, c Config, folder string) (err error) {
	s, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.makeStorage(ctx); err != nil {
		return err
	}
	return s.cluster.SaveEtcd(ctx, folder)
}

// Run runs an arm once, on a cluster that it starts and ends. An arm that the
// workload's limit stops is no error: fewer pods are Done than Asked.
func Run(ctx context.Context, c Config) (run Result, err error) {
	c.Progress("etcd, kube-apiserver")
	s, err := open(ctx, c)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	pods, err := s.prepare(ctx, c)
	if err != nil {
		return run, err
	}
	stored := s.profile(ctx, c)
	run, err = s.measure(ctx, pods)
	if err := errors.Join(err, stored()); err != nil {
		return run, err
	}
	if run.GivenTwice, err = s.givenTwice(ctx); err != nil {
		return run, err
	}
	if s.scheduler != nil {
		used, err := source.Used(s.scheduler)
		if err != nil {
			return run, err
		}
		run.PeakMemory = used.Peak
	}
	return run, nil
}

// prepare creates the other objects that exist when the load begins, and returns the pods of the
// load, which are not created yet.
func (s *setup) prepare(ctx context.Context, c Config) ([]*v1.Pod, error) {
	if err := s.findVolumes(ctx); err != nil {
		return nil, err
	}
	s.progress("claims of %d pods", c.Pods)
	first, err := s.makePods(ctx, "warm", warmUp)
	if err != nil {
		return nil, err
	}
	pods, err := s.makePods(ctx, "pod", c.Pods)
	if err != nil {
		return nil, err
	}
	if s.workload.controlled {
		if err := s.cluster.Kwok().Start(ctx); err != nil {
			return nil, err
		}
	}
	if s.workload.claims == claimsToProvision {
		s.startProvisioner(ctx)
	}
	if err := s.startPVController(ctx, c); err != nil {
		return nil, err
	}
	if err := s.watchPods(ctx); err != nil {
		return nil, err
	}
	if c.Arm != Ceiling {
		if err := s.startExtender(ctx, c); err != nil {
			return nil, err
		}
		if err := s.startScheduler(ctx, c); err != nil {
			return nil, err
		}
	}
	return pods, s.warm(ctx, first)
}

// warm schedules the first pods, and does what comes before the load.
func (s *setup) warm(ctx context.Context, first []*v1.Pod) error {
	s.progress("warm-up")
	load := allAtOnce
	if s.arm == Ceiling {
		load = bareClient
	}
	if err := load(ctx, s, first); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if s.workload.before != nil {
		if err := s.workload.before(ctx, s); err != nil {
			return err
		}
	}
	s.recorder.forget()
	return nil
}

// measure puts the load on.
func (s *setup) measure(ctx context.Context, pods []*v1.Pod) (run Result, err error) {
	load := s.workload.load
	switch {
	case s.arm == Ceiling:
		load = bareClient
	case load == nil:
		load = allAtOnce
	}
	before, err := s.usage(ctx, false)
	if err != nil {
		return run, err
	}
	s.progress("%d pods", len(pods))
	limited, cancel := context.WithTimeout(ctx, s.workload.Limit)
	begin := time.Now()
	err = load(limited, s, pods)
	cut := limited.Err() != nil && ctx.Err() == nil
	cancel()
	if err != nil && !cut {
		return run, err
	}
	took := time.Since(begin)
	after, err := s.usage(ctx, true)
	if err != nil {
		return run, err
	}
	run = s.outcome(len(pods), took, cut)
	run.usage = after.since(before)
	return run, nil
}

func (s *setup) outcome(asked int, took time.Duration, cut bool) Result {
	if s.events > 0 {
		return Result{Asked: s.events, Done: s.events, Seconds: took.Seconds()}
	}
	first, last := s.recorder.span()
	latencies := s.recorder.latencies()
	run := Result{
		Asked: asked, Done: len(latencies), Seconds: last.Sub(first).Seconds(),
		P50: figures.Quantile(latencies, 0.5), P99: figures.Quantile(latencies, 0.99),
	}
	if cut {
		run.Seconds = took.Seconds()
		run.Asked = max(asked, run.Done+1)
	}
	return run
}

// Result is the result of one arm in one round. Figures that were not measured are 0.
type Result struct {
	// Pods that were created, and how many of them were done (bound, or refused
	// where that is expected) in time. Fewer than Asked: the arm was stopped.
	Asked, Done int
	// Seconds from the first pod's creation to the last one done.
	Seconds float64
	// Latency of the pods that were done, from creation to binding, in seconds.
	P50, P99 float64
	// What was used from the first pod's creation to the last one done; Writes and Conflicts until
	// all volumes were Bound.
	usage
	// PeakMemory of the scheduler in bytes: its largest resident set, start-up included.
	PeakMemory int64
	// GivenTwice counts volumes that two claims name, or claims whose volume
	// names another. Anything but 0 is a fault.
	GivenTwice int
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
		{Value: figures.Measured(perPod(r.PVControllerCPU)), Unit: "pv-controller-cpu-sec/pod"}, {Value: figures.Measured(perPod(r.ControllerCPU)), Unit: "controller-cpu-sec/pod"}, {Value: figures.Measured(float64(r.PeakMemory)), Unit: "peak-B"},
		{Value: perPod(r.Writes), Unit: "writes/pod"}, {Value: perPod(r.Conflicts), Unit: "409s/pod"},
		{Value: r.filterSum / r.filterCount, Unit: "filter-sec"}, {Value: float64(r.GivenTwice), Unit: "given-twice"},
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
