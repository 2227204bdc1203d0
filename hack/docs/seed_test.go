// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// TestSeedTestPlan: the tests that the page names exist. Those of decisions have a subtest with the
// line as its name.
func TestSeedTestPlan(t *testing.T) {
	t.Parallel()
	rows := 0
	for line := range strings.Lines(read(t, "docs/seed-test-plan.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 2 || !strings.Contains(cells[1], "`") {
			continue
		}
		rows++
		byName := strings.Contains(cells[1], "`pkg/localdisk/decide`")
		named := false
		folder := ""
		for _, word := range quoted.FindAllStringSubmatch(cells[1], -1) {
			if !strings.HasPrefix(word[1], "Test") {
				folder = word[1]
				continue
			}
			source := testsIn(t, folder)
			if !strings.Contains(source, "func "+word[1]+"(") {
				t.Errorf("%s has no %s", folder, word[1])
			}
			named = named || strings.Contains(source, `"`+strings.TrimSuffix(strings.TrimSpace(cells[0]), ".")+`"`)
		}
		if byName && !named {
			t.Errorf("no subtest is called %q", strings.TrimSpace(cells[0]))
		}
	}
	if rows < 20 {
		t.Errorf("the page has %d rows that name tests", rows)
	}
}

func testsIn(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %q: %v", folder, err)
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
