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
	// Least and Most are the bounds, both allowed. Most 0 beside a Least means
	// no upper bound.
	Least, Most float64
	// Why is what is lost when the figure is outside.
	Why string
}

// Check returns an error when the figure is outside.
func (r Range) Check(figure float64) error {
	switch {
	case math.IsNaN(figure) || math.IsInf(figure, 0):
		return fmt.Errorf("%v is not a figure: nothing was measured", figure)
	case figure < r.Least:
		return fmt.Errorf("%.4g is less than %.4g: %s", figure, r.Least, r.Why)
	case r.Most > 0 && figure > r.Most, r.Most == 0 && r.Least == 0 && figure > 0:
		return fmt.Errorf("%.4g is more than %.4g: %s", figure, r.Most, r.Why)
	}
	return nil
}

// String is the range as people read it.
func (r Range) String() string {
	switch {
	case r.Least == 0:
		return fmt.Sprintf("at most %g", r.Most)
	case r.Most == 0:
		return fmt.Sprintf("at least %g", r.Least)
	}
	return fmt.Sprintf("%g to %g", r.Least, r.Most)
}
