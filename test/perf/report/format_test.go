// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"testing"
)

func TestUnits(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct{ got, want string }{
		"three digits below 1":             {number(0.41849), "0.418"},
		"a small figure keeps its digits":  {number(0.0006149), "0.000615"},
		"three digits below 10":            {number(5.0349), "5.03"},
		"zeros show precision":             {number(5), "5.00"},
		"three digits below 100":           {number(43.78), "43.8"},
		"rounding makes it longer":         {number(9.996), "10.0"},
		"rounding makes it whole":          {number(99.96), "100"},
		"whole from 100 on":                {number(177.4), "177"},
		"thousands apart":                  {number(1234567.8), "1,234,568"},
		"nothing measured is no zero":      {number(0), "–"},
		"a division by zero is no number":  {number(math.NaN()), "–"},
		"nor is this":                      {times(math.Inf(1)), "–"},
		"seconds":                          {seconds(43.78), "43.8 s"},
		"milliseconds below a second":      {seconds(0.0119), "11.9 ms"},
		"a second by rounding":             {seconds(0.9996), "1.00 s"},
		"not yet a second":                 {seconds(0.9994), "999 ms"},
		"microseconds":                     {seconds(0.00035), "350 µs"},
		"nanoseconds":                      {seconds(18e-9), "18.0 ns"},
		"no duration measured":             {seconds(0), "–"},
		"mebibytes":                        {memory(1460.4 * mebibyte), "1,460 MiB"},
		"no memory measured":               {memory(0), "–"},
		"a large ratio":                    {times(281.4), "281×"},
		"a ratio over ten":                 {times(10.44), "10.4×"},
		"ten by rounding":                  {times(9.996), "10.0×"},
		"a ratio near one":                 {times(0.726), "0.73×"},
		"a tiny ratio":                     {times(0.00412), "0.00412×"},
		"no ratio":                         {times(0), "–"},
		"a share":                          {percent(0.0648), "6.5 %"},
		"no conflict at all was measured":  {percent(0), "0 %"},
		"a share too small to show":        {percent(0.0001), "< 0.1 %"},
		"one thing":                        {plural(1, "claim"), "1 claim"},
		"many things":                      {plural(5000, "node"), "5,000 nodes"},
		"no thing":                         {count(0), "0"},
		"a million":                        {count(1000000), "1,000,000"},
		"three digits need no comma":       {count(100), "100"},
		"of something below zero as well":  {count(-1000), "-1,000"},
		"a hundred below zero is no comma": {count(-100), "-100"},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			if test.got != test.want {
				t.Errorf("%q, want %q", test.got, test.want)
			}
		})
	}
}
