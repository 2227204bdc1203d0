// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sec(v float64) Value { return Value{Value: v, Unit: "sec"} }

// TestStoredIsLoaded: a file that is loaded and stored again is the same.
func TestStoredIsLoaded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.txt")
	if s, err := Load(path); err != nil || s != nil {
		t.Errorf("a file that does not exist has %v, %v", s, err)
	}
	a, b := Set{Line("A/x=1", 3, sec(1.5), Value{Value: 1234567.8, Unit: "rss-B"}), Line("A/x=1", 3, sec(math.NaN()))}, Set{Line("B", 1, sec(2))}
	a.Describe(Key("command", "make a"), Key("load", "0.1"))
	b.Describe(Key("command", "make b"), Key("load", "0.1"))
	a[1].Values = []Value{{Value: 0, Unit: "given-twice"}}
	c, d := Set{Line("C", 1, sec(3))}, Set{Line("D", 1, sec(4))}
	c.Describe(Key("command", "make c")) // without a load
	d.Describe(Key("cpu", "a"), Key("load", "0.2"), Key("command", "make d"))
	s := slices.Concat(a, b, c, d)
	if err := s.Store(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.String(), loaded.String()); diff != "" || len(loaded) != 5 {
		t.Errorf("(-stored +loaded):\n%s", diff)
	}
	for i, want := range map[int]string{2: "make b, 0.1", 3: "make c, ", 4: "make d, 0.2"} {
		if got := loaded[i].GetConfig("command") + ", " + loaded[i].GetConfig("load"); got != want {
			t.Errorf("the configuration is %q, want %q", got, want)
		}
	}
	if err := os.WriteFile(path, []byte("BenchmarkA nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names %s", err, path)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	s := Set{Line("A/n=1/arm=x", 1, sec(1)), Line("A/n=1/arm=y", 1, sec(1)), Line("A/n=10/arm=x", 1, sec(1)), Line("B", 1, sec(1))}
	for name, tc := range map[string]struct {
		prefix string
		by     Set
		want   string
	}{
		"in its place, and no longer name":  {"A/n=1", Set{Line("A/n=1/arm=z", 1, sec(2))}, "A/n=1/arm=z A/n=10/arm=x B"},
		"a name without arms":               {"B", Set{Line("B", 1, sec(2)), Line("B", 1, sec(3))}, "A/n=1/arm=x A/n=1/arm=y A/n=10/arm=x B"},
		"what was not there is at the end":  {"C", Set{Line("C", 1, sec(2))}, "A/n=1/arm=x A/n=1/arm=y A/n=10/arm=x B C"},
		"the prefix of a name is no parent": {"A/n", Set{Line("A/n", 1, sec(2))}, "A/n=1/arm=x A/n=1/arm=y A/n=10/arm=x B A/n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := s.String()
			if got := strings.Join(s.Replace(tc.prefix, tc.by).Names(), " "); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if s.String() != before {
				t.Error("the set itself has changed")
			}
		})
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []float64
		want   string
	}{
		"none": {nil, "–"}, "one": {[]float64{3}, "3"}, "odd": {[]float64{9, 1, 5}, "5"}, "even": {[]float64{8, 1, 4, 2}, "3"},
	} {
		if got := Show(Median(tc.values), ""); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	tens := []float64{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}
	for name, tc := range map[string]struct {
		of    []float64
		share float64
		want  float64
	}{
		"one": {tens[:1], 0.99, 10}, "half of ten": {tens, 0.5, 50}, "nearly all": {tens, 0.99, 100}, "half of nine": {tens[:9], 0.5, 50},
		"the smallest": {tens, 0, 10}, "the longest": {tens, 1, 100},
	} {
		if got := Quantile(tc.of, tc.share); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if got := Quantile([]float64{}, 0.5); !math.IsNaN(got) {
		t.Errorf("of none: %v", got)
	}
}

// TestRatio: rounds are compared one by one, and only those that both arms have.
func TestRatio(t *testing.T) {
	t.Parallel()
	rounds := func(name string, values ...float64) (s Set) {
		for _, v := range values {
			s = append(s, Line(name, 1, sec(v), Value{Value: 1, Unit: "asked"}))
		}
		return s
	}
	for name, tc := range map[string]struct {
		a, b   []float64
		want   string
		rounds int
	}{
		"the machine slows down":   {[]float64{400, 200, 100}, []float64{40, 20, 10}, "10×", 3},
		"one has fewer rounds":     {[]float64{4, 2}, []float64{2}, "2×", 1},
		"one was not measured":     {[]float64{4, 9}, []float64{math.NaN(), 3}, "3×", 1},
		"a division by 0 is none":  {[]float64{4}, []float64{0}, "–", 0},
		"no rounds":                {nil, []float64{1}, "–", 0},
		"even: the middle of both": {[]float64{1, 2, 3, 4}, []float64{1, 1, 1, 1}, "2.50×", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ratio, n := append(rounds("a", tc.a...), rounds("b", tc.b...)...).Ratio("a", "b", "sec")
			if got := Show(ratio, "x"); got != tc.want || n != tc.rounds {
				t.Errorf("%s of %d rounds, want %s of %d", got, n, tc.want, tc.rounds)
			}
		})
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	for want, tc := range map[string]Value{
		"0.418":      {Value: 0.41849, Unit: ""},
		"0.000615":   {Value: 0.0006149, Unit: "409s/pod"},
		"5.03":       {Value: 5.0349, Unit: "pods/s"},
		"5":          {Value: 5, Unit: ""},
		"10":         {Value: 9.996, Unit: ""},
		"100":        {Value: 99.96, Unit: ""},
		"177":        {Value: 177.4, Unit: ""},
		"1,234,568":  {Value: 1234567.8, Unit: ""},
		"0":          {Value: 0, Unit: ""},
		"–":          {Value: math.NaN(), Unit: "sec"},
		"43.8 s":     {Value: 43.78, Unit: "p50-sec"},
		"11.9 ms":    {Value: 0.0119, Unit: "cpu-sec/pod"},
		"1 s":        {Value: 0.9996, Unit: "sec"},
		"999 ms":     {Value: 0.9994, Unit: "sec"},
		"350 µs":     {Value: 0.00035, Unit: "sec"},
		"18 ns":      {Value: 18e-9, Unit: "sec"},
		"0 ns":       {Value: 0, Unit: "sec"},
		"1,460 MiB":  {Value: 1460.4 * (1 << 20), Unit: "peak-B"},
		"37.9 MiB":   {Value: 37.87 * (1 << 20), Unit: "rss-B"},
		"467":        {Value: 467, Unit: "B/volume"},
		"281×":       {Value: 281.4, Unit: "x"},
		"0.00412×":   {Value: 0.00412, Unit: "x"},
		"6.5 %":      {Value: 0.0648, Unit: "share"},
		"-1,000":     {Value: -1000, Unit: ""},
		"-100":       {Value: -100, Unit: ""},
		"10,000,000": {Value: 1e7, Unit: "events"},
	} {
		if got := Show(tc.Value, tc.Unit); got != want {
			t.Errorf("%v %s is %q, want %q", tc.Value, tc.Unit, got, want)
		}
	}
}
