// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"
	"strconv"
	"strings"
)

// None stands for a figure that was not measured.
const None = "–"

// Show writes a figure for readers, with three significant digits and its unit:
// "43.8 ms", "278 MiB", "1,235".
func Show(v float64, unit string) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return None
	case unit == "x":
		return digits(v) + "×"
	case unit == "share":
		return strconv.FormatFloat(v*100, 'f', 1, 64) + " %"
	case strings.HasSuffix(unit, "-B"):
		return mebibytes(v)
	case strings.Contains(unit, "sec"):
		return seconds(v)
	}
	return digits(v)
}

func mebibytes(bytes float64) string {
	if v := bytes / (1 << 20); v < 100 {
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + " MiB"
	}
	return grouped(strconv.FormatFloat(bytes/(1<<20), 'f', 0, 64)) + " MiB"
}

// seconds are in the unit that reads best.
func seconds(v float64) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}, {"ns", 1e-9}} {
		if round(v/unit.size) >= 1 {
			return digits(v/unit.size) + " " + unit.name
		}
	}
	return digits(v/1e-9) + " ns"
}

// digits are three that are significant, and all before the point.
func digits(v float64) string {
	v = round(v)
	if v == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if v == math.Trunc(v) {
		text = strconv.FormatFloat(v, 'f', 0, 64)
	}
	return grouped(text)
}

func round(v float64) float64 {
	if math.Abs(v) >= 100 {
		return math.Round(v)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return rounded
}

// grouped has a comma before every third digit from the point to the left.
func grouped(decimal string) string {
	whole, rest, found := strings.Cut(decimal, ".")
	for i := len(whole) - 3; i > strings.Count(whole, "-"); i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		whole += "." + rest
	}
	return whole
}
