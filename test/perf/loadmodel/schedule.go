// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/source"
)

// scheduler is the state of scheduling cycles, with the plugin as the only one. Not safe for
// concurrent use.
type scheduler struct {
	plugin *volumetopology.Plugin
	meter  meter
	start  int // where the search for the next pod begins

	preFilter, filter, score, reserve tally
	// nodeRead is the cost of reading one field of each node, as kube-scheduler's
	// cheapest filters do: memory is slower the more of it is used.
	nodeRead tally
	blocked  int // nodes found unschedulable by reading
	// refused counts the Filter calls that rejected the node; scored the Score calls,
	// probed ones included.
	refused, filtered, scored int

	feasible []fwk.NodeInfo
	narrowed []fwk.NodeInfo
}

// The scheduler's rule: half of the nodes in small clusters, less in large
// ones, are enough to choose from (percentageOfNodesToScore: 0).
const (
	leastFeasible        = 100
	leastFeasiblePercent = 5
)

// enough is the number of feasible nodes that ends the search among nodes.
func enough(nodes int) int {
	if nodes < leastFeasible {
		return nodes
	}
	percent := max(50-nodes/125, leastFeasiblePercent)
	return max(nodes*percent/100, leastFeasible)
}

// place runs one cycle up to Reserve, and returns what PreBind needs.
func (m *model) place(ctx context.Context, pod *v1.Pod, probe bool) (fwk.CycleState, int, error) {
	state := framework.NewCycleState()
	nodes, err := m.preFilterNodes(ctx, state, pod, probe)
	if err != nil {
		return nil, 0, err
	}
	if err := m.filterNodes(ctx, state, pod, nodes, probe); err != nil {
		return nil, 0, err
	}
	m.readNodes(probe)
	best, err := m.scoreNodes(ctx, state, pod, probe)
	if err != nil {
		return nil, 0, err
	}
	var status *fwk.Status
	t := &m.reserve
	if len(nodes) < len(m.infos) {
		t = &tally{} // claims bound already: nothing to reserve
	}
	name := best.Node().Name
	m.meter.phase(t, probe, func() int {
		m.meter.one(t, probe, func() { status = m.plugin.Reserve(ctx, state, pod, name) })
		return 1
	})
	if !status.IsSuccess() {
		return nil, 0, fmt.Errorf("reserve volumes of pod %s on node %s: %w", pod.Name, name, status.AsError())
	}
	return state, m.indexOf[name], nil
}

func (m *model) preFilterNodes(ctx context.Context, state fwk.CycleState, pod *v1.Pod, probe bool) ([]fwk.NodeInfo, error) {
	var result *fwk.PreFilterResult
	var status *fwk.Status
	m.meter.phase(&m.preFilter, probe, func() int {
		m.meter.one(&m.preFilter, probe, func() { result, status = m.plugin.PreFilter(ctx, state, pod, m.infos) })
		return 1
	})
	switch {
	case !status.IsSuccess():
		return nil, fmt.Errorf("PreFilter refuses pod %s: %w", pod.Name, status.AsError())
	case result.AllNodes():
		return m.infos, nil
	}
	m.narrowed = m.narrowed[:0]
	for name := range result.NodeNames {
		m.narrowed = append(m.narrowed, m.infos[m.indexOf[name]])
	}
	return m.narrowed, nil
}

// filterNodes leaves the nodes that fit in m.feasible.
func (m *model) filterNodes(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, probe bool) error {
	m.feasible = m.feasible[:0]
	wanted := enough(len(nodes))
	if cap(m.feasible) < wanted {
		m.feasible = make([]fwk.NodeInfo, 0, wanted)
	}
	asked := 0
	var failed *fwk.Status
	m.meter.phase(&m.filter, probe, func() int {
		for ; asked < len(nodes) && len(m.feasible) < wanted; asked++ {
			info := nodes[(m.start+asked)%len(nodes)]
			var status *fwk.Status
			if probe {
				m.meter.one(&m.filter, probe, func() { status = m.plugin.Filter(ctx, state, pod, info) })
			} else {
				status = m.plugin.Filter(ctx, state, pod, info)
			}
			switch {
			case status.IsSuccess():
				m.feasible = append(m.feasible, info)
			case status.Code() == fwk.Error:
				failed = status
			}
		}
		return asked
	})
	m.start = (m.start + asked) % len(m.infos)
	m.filtered += asked
	m.refused += asked - len(m.feasible)
	switch {
	case failed != nil:
		return fmt.Errorf("filter nodes for pod %s: %w", pod.Name, failed.AsError())
	case len(m.feasible) == 0:
		return fmt.Errorf("none of %d nodes fits pod %s", asked, pod.Name)
	}
	return nil
}

// readNodes reads a field of as many nodes as a search visits, those that were
// visited longest ago.
func (m *model) readNodes(probe bool) {
	if probe || m.preFilter.calls%readEvery != 0 {
		return
	}
	n := min(enough(len(m.infos)), len(m.infos)/2)
	m.meter.phase(&m.nodeRead, probe, func() int {
		for i := range n {
			if m.infos[(m.start+i)%len(m.infos)].Node().Spec.Unschedulable {
				m.blocked++
			}
		}
		return n
	})
}

// readEvery is after how many pods nodes are read once.
const readEvery = 16

// scoreNodes returns the feasible node of the highest score; of several, any.
func (m *model) scoreNodes(ctx context.Context, state fwk.CycleState, pod *v1.Pod, probe bool) (fwk.NodeInfo, error) {
	if status := m.plugin.PreScore(ctx, state, pod, m.feasible); status.IsSkip() || len(m.feasible) == 1 {
		return m.feasible[m.rng.IntN(len(m.feasible))], nil
	} else if !status.IsSuccess() {
		return nil, fmt.Errorf("PreScore of pod %s: %w", pod.Name, status.AsError())
	}
	var best fwk.NodeInfo
	var failed *fwk.Status
	highest, equals := int64(-1), 0
	m.meter.phase(&m.score, probe, func() int {
		for _, info := range m.feasible {
			var points int64
			var status *fwk.Status
			if probe {
				m.meter.one(&m.score, probe, func() { points, status = m.plugin.Score(ctx, state, pod, info) })
			} else {
				points, status = m.plugin.Score(ctx, state, pod, info)
			}
			if !status.IsSuccess() {
				failed = status
			}
			switch {
			case points > highest:
				best, highest, equals = info, points, 1
			case points == highest:
				if equals++; m.rng.IntN(equals) == 0 {
					best = info
				}
			}
		}
		return len(m.feasible)
	})
	m.scored += len(m.feasible)
	if failed != nil {
		return nil, fmt.Errorf("score nodes for pod %s: %w", pod.Name, failed.AsError())
	}
	return best, nil
}

// tally sums the cost of the calls of one kind.
type tally struct {
	calls int
	spent time.Duration // CPU time, of calls not probed

	took []time.Duration // wall time, of each call that is probed
}

// seconds is the mean CPU time of a call.
func (t *tally) seconds() float64 { return per(t.spent.Seconds(), t.calls) }

// p99 is the wall time in seconds that 99 of 100 calls do not exceed.
func (t *tally) p99() float64 { return figures.Quantile(t.took, 0.99) / float64(time.Second) }

func per(sum float64, calls int) float64 {
	if calls == 0 {
		return 0
	}
	return sum / float64(calls)
}

// meter reads the clocks; the cost of reading them is subtracted.
type meter struct{ cpu, wall time.Duration }

func newMeter() meter {
	least := func(now func() time.Duration) time.Duration {
		least := time.Hour
		for range 1000 {
			begin := now()
			least = min(least, now()-begin)
		}
		return least
	}
	origin := time.Now()
	return meter{cpu: least(source.Thread), wall: least(func() time.Duration { return time.Since(origin) })}
}

// phase runs a number of calls of one kind, which calls returns, and adds them
// to the tally.
func (m meter) phase(t *tally, probe bool, calls func() int) {
	if probe {
		calls()
		return
	}
	begin := source.Thread()
	n := calls()
	t.spent += max(0, source.Thread()-begin-m.cpu)
	t.calls += n
}

// one runs a single call, timed if it is probed.
func (m meter) one(t *tally, probe bool, call func()) {
	if !probe {
		call()
		return
	}
	begin := time.Now()
	call()
	t.took = append(t.took, max(0, time.Since(begin)-m.wall))
}

// heap is the number of bytes in use after garbage collection.
func heap() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
