// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/result"
)

var update = flag.Bool("update", false, "write what is made to testdata")

// golden compares a text with the file of that name in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); if it is as it should be, run the test with -update:\n%s", path, diff)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]string{
		"benchmarks.md": Markdown(sample(), "benchmarks/throughput.svg", "benchmarks/engine.svg"),
		"unmeasured.md": Markdown(result.File{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, page)
			for line := range strings.Lines(page) {
				if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
					t.Errorf("a line ends with blanks: %q", line)
				}
			}
		})
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, w := range sample().Workloads {
		all.WriteString(Table(w) + "\n")
	}
	golden(t, "tables.txt", all.String())
}

// TestSameOfSame: a page does not depend on when or where it is made.
func TestSameOfSame(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(Markdown(sample()), Markdown(sample())); diff != "" {
		t.Errorf("two pages of the same results differ:\n%s", diff)
	}
}

// TestResultsStay: rendering a page does not change the results.
func TestResultsStay(t *testing.T) {
	t.Parallel()
	f := sample()
	Markdown(f)
	for _, w := range f.Workloads {
		Table(w)
	}
	if diff := cmp.Diff(sample(), f); diff != "" {
		t.Errorf("results changed (-before +after):\n%s", diff)
	}
}
