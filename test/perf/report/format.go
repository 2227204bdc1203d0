// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"strconv"

	"stowage.dev/stowage/test/perf/page"
)

// missing replaces values that were not measured.
const missing = "–"

// mebibyte is the unit of memory.
const mebibyte = 1 << 20

// number shows a figure with three significant digits, whole from 100 on:
// "0.418", "5.03", "43.8", "1,235". None is shown as missing, and so is 0, which
// no figure that is shown this way can be when it was measured.
func number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return missing
	}
	return digits(v)
}

// digits shows a figure with three significant digits, whole from 100 on.
func digits(v float64) string {
	v = round(v)
	if v == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return page.Grouped(strconv.FormatFloat(v, 'f', decimals, 64))
}

// round keeps three significant digits, and all before the point.
func round(v float64) float64 {
	if math.Abs(v) >= 100 {
		return math.Round(v)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return rounded
}

// seconds shows a duration in the unit that reads best: "43.8 s", "11.9 ms",
// "350 µs".
func seconds(v float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}, {"ns", 1e-9}} {
		if v != 0 && (round(v/unit.seconds) >= 1 || unit.name == "ns") {
			return number(v/unit.seconds) + " " + unit.name
		}
	}
	return missing
}

// memory shows bytes as MiB.
func memory(bytes float64) string {
	if bytes == 0 {
		return missing
	}
	return page.Grouped(strconv.FormatFloat(bytes/mebibyte, 'f', 0, 64)) + " MiB"
}

// times shows a ratio: "233×", "10.4×", "0.73×".
func times(v float64) string {
	switch {
	case v == 0 || math.IsNaN(v) || math.IsInf(v, 0):
		return missing
	case v < 0.1:
		return digits(v) + "×"
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64) + "×"
	}
	return digits(v) + "×"
}

// percent shows a share: "4.2 %". A share of 0 was measured: "0 %".
func percent(v float64) string {
	switch {
	case v == 0:
		return "0 %"
	case v < 0.0005:
		return "< 0.1 %"
	}
	return strconv.FormatFloat(v*100, 'f', 1, 64) + " %"
}

// count shows a number of things: "1,000".
func count(n int) string { return page.Count(n) }

// plural shows a number of things with their name: "1 claim", "500 nodes".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}
