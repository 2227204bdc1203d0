// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"runtime"
	"time"

	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/loadmodel/cputime"
)

// tally sums the cost of the calls of one kind.
type tally struct {
	calls int
	spent time.Duration // CPU time, of calls not probed

	// Probed calls are measured individually, and are not in the above.
	took   []time.Duration // wall time
	probed int
	allocs uint64
}

// seconds is the mean CPU time of a call.
func (t *tally) seconds() float64 { return per(t.spent.Seconds(), t.calls) }

// allocations is how many objects a call allocates on average.
func (t *tally) allocations() float64 { return per(float64(t.allocs), t.probed) }

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
	return meter{cpu: least(cputime.Thread), wall: least(func() time.Duration { return time.Since(origin) })}
}

// phase runs a number of calls of one kind, which calls returns, and adds them
// to the tally.
func (m meter) phase(t *tally, probe bool, calls func() int) {
	if probe {
		before := mallocs()
		t.probed += calls()
		t.allocs += mallocs() - before
		return
	}
	begin := cputime.Thread()
	n := calls()
	t.spent += max(0, cputime.Thread()-begin-m.cpu)
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
	took := max(0, time.Since(begin)-m.wall)
	if len(t.took) < cap(t.took) { // growing would count as an allocation of the call
		t.took = append(t.took, took)
	}
}

func mallocs() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// heap is the number of bytes in use after garbage collection.
func heap() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
