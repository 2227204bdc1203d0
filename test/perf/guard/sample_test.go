// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"runtime"
	"time"

	"stowage.dev/stowage/test/perf/source"
)

const (
	rounds     = 60
	sampleTime = 2 * time.Millisecond
	// smallest is the fewest calls of a sample: the stock plugin stops at the
	// first storage capacity that will do, in random order.
	smallest = 16
)

// arm is one side of a ratio: the call, and its samples. The call gets
// its number, so that it can alternate between nodes.
type arm struct {
	call  func(i int)
	batch int // calls of a sample
	next  int
	best  time.Duration // of a batch
}

// nanos is the fastest sample of a call.
func (a *arm) nanos() float64 { return float64(a.best) / float64(a.batch) }

// compare measures both calls in turn.
func compare(over, under func(i int)) (a, b *arm) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, b = &arm{call: over, batch: smallest}, &arm{call: under, batch: smallest}
	for _, each := range []*arm{a, b} {
		for each.sample() < sampleTime && each.batch < 1<<20 {
			each.batch *= 2
		}
		each.best = time.Hour
	}
	for range rounds {
		for _, each := range []*arm{a, b} {
			each.best = min(each.best, each.sample())
		}
	}
	return a, b
}

func (a *arm) sample() time.Duration {
	begin := source.Thread()
	for range a.batch {
		a.call(a.next)
		a.next++
	}
	return source.Thread() - begin
}
