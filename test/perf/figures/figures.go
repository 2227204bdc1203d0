// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package figures stores benchmark results in the Go benchmark format, which benchstat
// reads: one line per round and arm, with configuration lines for the machine, the versions
// and the command. It measures nothing.
//
//	BenchmarkCluster/workload=static-500/arm=stowage 1500 104 pods/s 8.86 p50-sec
//
// Units that contain "sec" are seconds, units that end in "-B" bytes.
package figures

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Value is a figure and its unit.
type Value = benchfmt.Value

// Set is the results of files, in their order. Rounds of an arm have the same name and
// follow each other.
type Set []*benchfmt.Result

// Line is the result of an arm in one round: n is how many operations the figures are of.
// Values that are not numbers were not measured and are left out; the others are rounded to six digits.
func Line(name string, n int, values ...Value) *benchfmt.Result {
	r := &benchfmt.Result{Name: benchfmt.Name(name), Iters: n}
	for _, v := range values {
		if !math.IsNaN(v.Value) && !math.IsInf(v.Value, 0) {
			v.Value, _ = strconv.ParseFloat(strconv.FormatFloat(v.Value, 'g', 6, 64), 64)
			r.Values = append(r.Values, v)
		}
	}
	return r
}

// Measured is v, or NaN if v is 0: for figures that are 0 only if they were not measured.
func Measured(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// Describe adds configuration to all results of the set.
func (s Set) Describe(config ...benchfmt.Config) {
	for _, r := range s {
		r.Config = slices.Concat(r.Config, config)
	}
}

// Key is a configuration line: a key in lower case without spaces, and a text that is not empty.
func Key(key, text string) benchfmt.Config {
	return benchfmt.Config{Key: key, Value: []byte(text), File: true}
}

// Load reads files. A file that does not exist is empty.
func Load(paths ...string) (Set, error) {
	var s Set
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		reader := benchfmt.NewReader(bytes.NewReader(data), path)
		for reader.Scan() {
			switch record := reader.Result().(type) {
			case *benchfmt.Result:
				s = append(s, record.Clone())
			case *benchfmt.SyntaxError:
				return nil, record
			}
		}
		if err := reader.Err(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Store writes a file that Load reads.
func (s Set) Store(path string) error {
	return os.WriteFile(path, []byte(s.String()), 0o644)
}

// String is the set in the Go benchmark format.
func (s Set) String() string {
	var text bytes.Buffer
	writer := benchfmt.NewWriter(&text)
	for _, r := range s {
		_ = writer.Write(r) // to memory
	}
	return text.String()
}

// below reports whether name is the prefix or a sub-benchmark of it.
func below(name benchfmt.Name, prefix string) bool {
	rest, ok := strings.CutPrefix(string(name), prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// Replace returns the set with the results below prefix replaced, in their place.
func (s Set) Replace(prefix string, by Set) Set {
	at := slices.IndexFunc(s, func(r *benchfmt.Result) bool { return below(r.Name, prefix) })
	if at < 0 {
		at = len(s)
	}
	rest := slices.DeleteFunc(slices.Clone(s[at:]), func(r *benchfmt.Result) bool { return below(r.Name, prefix) })
	return slices.Concat(s[:at], by, rest)
}

// Below are the results whose name is the prefix or a sub-benchmark of it.
func (s Set) Below(prefix string) Set {
	return slices.DeleteFunc(slices.Clone(s), func(r *benchfmt.Result) bool { return !below(r.Name, prefix) })
}

// Names are the different names of the results, in their order.
func (s Set) Names() []string {
	var names []string
	for _, r := range s {
		if name := string(r.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Of are the rounds of one name.
func (s Set) Of(name string) Set {
	return slices.DeleteFunc(slices.Clone(s), func(r *benchfmt.Result) bool { return string(r.Name) != name })
}

// Values are the figures of one name, by round. Rounds without the unit are left out.
func (s Set) Values(name, unit string) []float64 {
	var values []float64
	for _, r := range s.Of(name) {
		if v, ok := r.Value(unit); ok {
			values = append(values, v)
		}
	}
	return values
}

// Median is the median of a figure over the rounds; NaN without rounds.
func (s Set) Median(name, unit string) float64 { return Median(s.Values(name, unit)) }

// Ratio is the median over the rounds of a's figure divided by b's, and the number of rounds.
// Rounds are compared one by one because the speed of a machine changes. Those without one of
// the figures, or with a divisor of 0, do not count.
func (s Set) Ratio(a, b, unit string) (ratio float64, rounds int) {
	over, under := s.Of(a), s.Of(b)
	var ratios []float64
	for i := range min(len(over), len(under)) {
		x, measured := over[i].Value(unit)
		if y, too := under[i].Value(unit); measured && too && y != 0 {
			ratios = append(ratios, x/y)
		}
	}
	return Median(ratios), len(ratios)
}

// Cut reports whether an arm was stopped before all requested pods were done.
func (s Set) Cut(name string) bool {
	return slices.ContainsFunc(s.Of(name), func(r *benchfmt.Result) bool {
		asked, ok := r.Value("asked")
		return ok && float64(r.Iters) < asked
	})
}

// Median of values; of an even number it is the mean of the middle two, of none NaN.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Quantile is the smallest value that at least this share, from 0 to 1, does not exceed; NaN of none.
func Quantile[T ~int64 | ~float64](values []T, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return float64(sorted[min(max(rank, 1), len(sorted))-1])
}

// Times are the figures of one series of times: median, 99th percentile and the longest.
func Times(seconds []float64) []Value {
	return []Value{
		{Value: Quantile(seconds, 0.5), Unit: "p50-sec"},
		{Value: Quantile(seconds, 0.99), Unit: "p99-sec"},
		{Value: Quantile(seconds, 1), Unit: "max-sec"},
	}
}

// Arm is the name of an arm of a benchmark.
func Arm(prefix, arm string) string { return prefix + "/arm=" + arm }

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
		return mebibytes(v / (1 << 20))
	case strings.Contains(unit, "sec"):
		return seconds(v)
	}
	return digits(v)
}

// english separates groups of digits.
var english = message.NewPrinter(language.English)

func mebibytes(v float64) string {
	if v < 100 {
		return strings.TrimSuffix(english.Sprintf("%.1f", v), ".0") + " MiB"
	}
	return english.Sprintf("%.0f MiB", v)
}

// seconds are in the unit that reads best.
func seconds(v float64) string {
	name := ""
	for _, name = range []string{"s", "ms", "µs", "ns"} {
		if round(v) >= 1 || name == "ns" {
			break
		}
		v *= 1000
	}
	return digits(v) + " " + name
}

// digits are three that are significant, and all before the point.
func digits(v float64) string {
	v = round(v)
	decimals := 0
	if v != math.Trunc(v) {
		decimals = 2 - int(math.Floor(math.Log10(math.Abs(v))))
	}
	return english.Sprintf("%.*f", decimals, v)
}

func round(v float64) float64 {
	if math.Abs(v) >= 100 {
		return math.Round(v)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return rounded
}
