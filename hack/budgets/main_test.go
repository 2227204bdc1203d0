// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		events string
		stages map[string]time.Duration
		factor time.Duration
		want   string
	}{
		"nothing was measured": {},
		"a suite takes the time of its packages, once where they overlap; other lines do not matter": {
			events: `go: downloading something
{"Time":"2026-01-01T00:00:00Z","Action":"start","Package":"stowage.dev/stowage/test/integration/nodeloss"}
{"Time":"2026-01-01T00:00:30Z","Action":"start","Package":"stowage.dev/stowage/test/integration/cleaningjobs"}
{"Time":"2026-01-01T00:00:40Z","Action":"start","Package":"stowage.dev/stowage/test/integration/extender"}
{"Time":"2026-01-01T00:09:00Z","Action":"pass","Package":"stowage.dev/stowage/test/integration/nodeloss","Test":"TestX"}
{"Time":"2026-01-01T00:00:50Z","Action":"pass","Package":"stowage.dev/stowage/test/integration/nodeloss"}
{"Time":"2026-01-01T00:00:55Z","Action":"fail","Package":"stowage.dev/stowage/test/integration/cleaningjobs"}
{"Time":"2026-01-01T00:01:00Z","Action":"pass","Package":"stowage.dev/stowage/test/integration/extender"}
`,
			want: "extender 150s 20s\ncontrollers 150s 55s",
		},
		"a suite that waits between its packages": {
			events: `{"Time":"2026-01-01T00:00:00Z","Action":"start","Package":"stowage.dev/stowage/test/integration/disks"}
{"Time":"2026-01-01T00:00:10Z","Action":"pass","Package":"stowage.dev/stowage/test/integration/disks"}
{"Time":"2026-01-01T00:05:00Z","Action":"start","Package":"stowage.dev/stowage/test/integration/takeover"}
{"Time":"2026-01-01T00:05:10Z","Action":"pass","Package":"stowage.dev/stowage/test/integration/takeover"}
`,
			want: "disks 125s 20s",
		},
		"what is over its budget is marked": {
			stages: map[string]time.Duration{"make test": 18 * time.Minute, "make verify": time.Minute},
			want:   "make test 900s 1080s OVER by 20%\nmake verify 300s 60s",
		},
		"a slow machine has larger budgets": {
			stages: map[string]time.Duration{"make test": 18 * time.Minute}, factor: 2,
			want: "make test 1800s 1080s",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took := map[string]time.Duration{}
			read([]byte(test.events), took)
			maps.Copy(took, test.stages)
			var out strings.Builder
			if err := write(&out, took, func(d time.Duration) time.Duration { return d * max(1, test.factor) }); err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				fields := strings.Fields(line)
				if len(fields) > 0 && fields[0] != "suite" && fields[0] != "Budgets" {
					got = append(got, strings.Join(fields, " "))
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTable: every package with tests has a budget, every budget has packages, and suites
// fit into their stages.
func TestTable(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	used := map[string]bool{}
	for _, folder := range []string{"pkg", "cmd", "hack", "test"} {
		err := filepath.WalkDir(filepath.Join(top, folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			relative, err := filepath.Rel(top, filepath.Dir(name))
			if err != nil {
				return err
			}
			suite := suiteOf(filepath.ToSlash(relative))
			if suite == "" {
				t.Errorf("%s belongs to no suite", relative)
			}
			used[suite] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limits, all := map[string]time.Duration{}, time.Duration(0)
	for _, stage := range stages {
		limits[stage.name] = stage.limit
	}
	for _, suite := range suites {
		if !used[suite.name] {
			t.Errorf("suite %q has no packages", suite.name)
		}
		switch suite.name {
		case "end to end":
		case "unit tests", "benchmarks":
			all += suite.limit
		default: // two packages run at a time
			all += suite.limit / 2
		}
	}
	if all > limits["make test"] {
		t.Errorf("the suites may take %v, and make test %v", all, limits["make test"])
	}
	if sum := limits["make test"] + limits["make verify"] + limits["make e2e"]; sum > limits["all of .ci/run"] {
		t.Errorf("the stages may take %v, and all of .ci/run %v", sum, limits["all of .ci/run"])
	}
}
