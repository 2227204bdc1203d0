// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"math"
	"testing"

	"stowage.dev/stowage/test/perf/guard"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	upTo2, from1000, none := guard.Range{Most: 2, Why: "x"}, guard.Range{Least: 1000, Most: math.MaxFloat64, Why: "x"}, guard.Range{Why: "x"}
	for name, test := range map[string]struct {
		guard.Range
		figure float64
		passes bool
	}{
		"below the upper bound":           {upTo2, 1.1, true},
		"on the upper bound":              {upTo2, 2, true},
		"above the upper bound":           {upTo2, 2.1, false},
		"above the lower bound":           {from1000, 5000, true},
		"below the lower bound":           {from1000, 999, false},
		"nothing, and nothing is allowed": {none, 0, true},
		"one, and nothing is allowed":     {none, 1, false},
		"divided by nothing":              {from1000, math.Inf(1), false},
		"nothing divided by nothing":      {upTo2, math.NaN(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := test.Check(test.figure); (err == nil) != test.passes {
				t.Errorf("Check(%v) of %s: %v", test.figure, test.Range, err)
			}
		})
	}
}
