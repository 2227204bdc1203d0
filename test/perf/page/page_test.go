// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/result"
)

type figures struct {
	Millis []float64 `json:"millis,omitempty"`
}

func TestStoredIsLoaded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "figures.json")
	if f, err := Load[figures](path); err != nil || !cmp.Equal(figures{}, f) {
		t.Fatalf("a file that does not exist: %v, %v", f, err)
	}
	if err := Store(path, []byte(`{"millis":[1,2]}`), "# Page\n"); err != nil {
		t.Fatal(err)
	}
	got, err := Load[figures](path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(figures{Millis: []float64{1, 2}}, got); diff != "" {
		t.Errorf("-stored +loaded:\n%s", diff)
	}
	if text, err := os.ReadFile(strings.TrimSuffix(path, "json") + "md"); err != nil || string(text) != "# Page\n" {
		t.Errorf("the page is %q, %v", text, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load[figures](path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names %s", err, path)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	var times []float64
	for i := range 200 {
		times = append(times, float64(200-i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 100, 0.99: 198, 1: 200} {
		if got := Quantile(times, q); got != want {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
	if times[0] != 200 {
		t.Error("the times were sorted in place")
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	want := "| figure | wanted | measured | outcome |\n| --- | --: | --: | --: |\n| a | < 1 | 0 | met |\n| b | < 1 | 2 | **missed** |\n"
	if diff := cmp.Diff(want, Floors([][]string{Floor("a", "< 1", "0", true), Floor("b", "< 1", "2", false)})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC)
	source := result.Source{Time: at, Command: "make bench", Version: "v0.0.1", Kubernetes: "v1.37.1", Go: "go1.26.0", CPU: "Imaginary CPU", CPUs: 2, Memory: 24 << 30, System: "Linux 0.0"}
	later, other := source, source
	later.Time = at.Add(time.Minute)
	other.Version = "v0.0.2"
	got := Sources([]Part{{"a", Circumstances{source, 0.3}}, {"b", Circumstances{other, 0}}, {"c", Circumstances{later, 0.5}}})
	for what, want := range map[string]string{
		"parts that have all but their time in common": "a on 2026-01-02 23:30 (load average before: 0.3); c on 2026-01-02 23:31 (load average before: 0.5), UTC:\n",
		"a part of another version":                    "\nb on 2026-01-02 23:30 (load average before: 0.0), UTC:\n\n- `make bench`\n- Stowage v0.0.2, ",
		"the machine":                                  "- 2 processors of Imaginary CPU, 24.0 GiB of memory, ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: got no %q:\n%s", what, want, got)
		}
	}
	if got := Sources(nil); !strings.Contains(got, "Nothing was measured yet.") {
		t.Errorf("of nothing: %q", got)
	}
}
