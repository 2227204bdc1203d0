// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPut(t *testing.T) {
	t.Parallel()
	const (
		head  = "| Kubernetes | suite | date | result | passed | skipped | failed | time |\n| --- | --- | --- | --- | --: | --: | --: | --: |\n"
		unit  = "| 1.36.3 | test-unit | 2026-01-01 | passed | 9 | 0 | 0 | 9s |\n"
		newer = "| 1.37.1 | e2e | 2026-01-01 | passed | 8 | 0 | 0 | 8s |\n"
		older = "| 1.35.4 | test-unit | 2026-01-01 | **failed** | 7 | 0 | 1 | 7s |\n"
		added = "| 1.36.3 | test-integration | 2026-02-03 | passed | 3 | 2 | 0 | 12m5s |\n"
	)
	passed := result{
		version: "1.36.3", suite: "test-integration", date: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		took: 12*time.Minute + 4600*time.Millisecond, passed: true, tests: map[string]int{"run": 5, "pass": 3, "skip": 2},
	}
	failed := passed
	failed.passed, failed.tests = false, nil
	tests := map[string]struct {
		table, want string
		result      result
	}{
		"the first row":                      {"", head + added, passed},
		"other rows stay, in order":          {head + newer + unit + older, head + newer + unit + added + older, passed},
		"rows that are not in order":         {head + older + unit + newer, head + newer + unit + added + older, passed},
		"a row of an older patch":            {head + strings.ReplaceAll(added, "1.36.3", "1.36.0"), head + added, passed},
		"a suite that failed":                {head + added, head + "| 1.36.3 | test-integration | 2026-02-03 | **failed** | 0 | 0 | 0 | 12m5s |\n", failed},
		"a minor that is no longer built":    {head + strings.ReplaceAll(unit, "1.36.3", "1.34.9"), head + added, passed},
		"a suite that is no target any more": {head + strings.ReplaceAll(unit, "test-unit", "test-all"), head + added, passed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const before, after = "# Page\n\n| 1.36.3 | another table |\n\n<!-- matrix -->\n", "<!-- /matrix -->\n\nText\n"
			got, err := put(before+test.table+after, test.result, []string{"1.37.1", "1.36.3", "1.35.4"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before+test.want+after, got); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := put("# Page\n", passed, nil); err == nil || !strings.Contains(err.Error(), "<!-- matrix -->") {
		t.Errorf("error of a page without a table: %v, want one that names its comment", err)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	const events = `make: a line that is no event
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"pass\n"}
{"Action":"pass","Package":"p","Test":"TestA/b"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p","Test":"TestD"}
{"Action":"fail","Package":"p"}
`
	got := count([]byte(events))
	want := map[string]int{"run": 1, "output": 1, "pass": 2, "skip": 1, "fail": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("count (-want +got):\n%s", diff)
	}
}

// TestRefused: a suite that does not exist is refused before anything runs.
func TestRefused(t *testing.T) {
	t.Parallel()
	const want = "SUITE=test: must be one of test-unit, test-integration, e2e"
	if err := run("", "test"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
