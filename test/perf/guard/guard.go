// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard detects performance regressions of the plugin. Its tests measure
// ratios, which hardly depend on the machine, and compare each with a recorded
// range:
//
//	go test -v -count=1 ./test/perf/guard
//
// A range is as wide as a busy machine needs and far narrower than the effect that it
// detects: an index that is no longer used makes a call a hundred times
// slower at a hundred times the volumes. Both sides of a ratio are measured in
// turn, in CPU time of one thread, and the fastest sample of each side counts.
package guard

import (
	"fmt"
	"math"
)

// Range is the accepted range of a figure, and the reason.
type Range struct {
	// Least and Most are the bounds, both allowed.
	Least, Most float64
	// Why is what is lost when the figure is outside.
	Why string
}

// Check returns an error when the figure is outside, as infinity and what is not a number are of
// every range.
func (r Range) Check(figure float64) error {
	if figure >= r.Least && figure <= r.Most {
		return nil
	}
	return fmt.Errorf("%.4g is not %s: %s", figure, r, r.Why)
}

// String is the range as people read it.
func (r Range) String() string { return fmt.Sprintf("%.4g to %.4g", r.Least, r.Most) }

// noLimit is a Most that every finite figure is below.
const noLimit = math.MaxFloat64
