// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/figures"
)

const root = "../../.."

// TestPublished: the page shows the stored results, and no others.
func TestPublished(t *testing.T) {
	t.Parallel()
	published, err := os.ReadFile(filepath.Join(root, Path))
	if err != nil {
		t.Fatal(err)
	}
	filled, err := Fill(root, string(published))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(filled, string(published)); diff != "" {
		t.Errorf("%s does not show the results in %s (-want +got); run make bench-page:\n%s", Path, Results, diff)
	}
}

// TestStoredAsWritten: the results are as their commands store them, so that a run changes no other lines.
func TestStoredAsWritten(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, Results, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal("no results", err)
	}
	for _, file := range files {
		set, err := figures.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(set.String(), string(stored)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		for _, r := range set {
			for _, key := range []string{"measured", "command", "commit", "kubernetes", "go", "cpus", "cpu", "memory", "kernel"} {
				if r.GetConfig(key) == "" {
					t.Errorf("%s: %s has no %s", file, r.Name, key)
				}
			}
		}
	}
}

// TestHeadlines: the figures of the README are those of the stored results.
func TestHeadlines(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := figures.Load(filepath.Join(root, Results, "clusters.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{show(set, arm("static-500", Stowage), "pods/s"), show(set, arm("single", Stock), "p50-sec")} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md does not have the measured %s", want)
		}
	}
}

func TestFillNamesTheTableThatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := Fill(root, "# Benchmarks\n"); err == nil || !strings.Contains(err.Error(), "<!-- minimums -->") {
		t.Errorf("got %v, want an error that names the table", err)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	want := "| disk | p50 |\n| --- | --: |\n| a\\|b | 1 ms |\n"
	if diff := cmp.Diff(want, Table(1, []string{"disk", "p50"}, [][]string{{"a|b", "1 ms"}})); diff != "" {
		t.Error(diff)
	}
}

// TestWatchScaled: each watcher costs what it does beyond none.
func TestWatchScaled(t *testing.T) {
	t.Parallel()
	line := func(watchers, cpu float64, name string) figures.Set {
		return figures.Set{figures.Line("Watch/watchers="+name, 1, figures.Value{Value: watchers, Unit: "watchers"}, figures.Value{Value: cpu, Unit: "update-cpu-sec"})}
	}
	text := watchTable(slices.Concat(line(0, 2, "none"), line(1000, 3, "filtered"), line(50, 4, "all")))
	if want := "| all, scaled up | 1,000 | – | – | – | – | – | – | 42 s | – | – |"; !strings.Contains(text, want) {
		t.Errorf("no row %q in:\n%s", want, text)
	}
}
