// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at is an event that arrives the given seconds after the start.
type at struct {
	second int
	event  event
}

func TestReport(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

	tests := map[string]struct {
		tests  bool
		events []at
		want   string
		wantOK bool
	}{
		"packages pass: a line each, output of passing tests is dropped": {
			events: []at{
				{0, event{Action: "start", Package: "a"}},
				{0, event{Action: "run", Package: "a", Test: "TestX"}},
				{0, event{Action: "output", Package: "a", Test: "TestX", Output: "noise\n"}},
				{1, event{Action: "pass", Package: "a", Test: "TestX", Elapsed: 1}},
				{1, event{Action: "pass", Package: "a", Elapsed: 1.2}},
				{1, event{Action: "output", Package: "b", Output: "ok  \tb\t(cached)\n"}},
				{1, event{Action: "pass", Package: "b"}},
				{1, event{Action: "skip", Package: "without-tests"}},
			},
			want: `
ok   a  1.2s
ok   b  cached
1 tests passed, 0 failed, 0 skipped; 2 packages in 60s
`,
			wantOK: true,
		},
		"tests wanted: top-level tests get a line, subtests none, a skip its reason": {
			tests: true,
			events: []at{
				{0, event{Action: "run", Package: "a", Test: "TestX"}},
				{0, event{Action: "pass", Package: "a", Test: "TestX/sub", Elapsed: 1}},
				{1, event{Action: "pass", Package: "a", Test: "TestX", Elapsed: 1}},
				{1, event{Action: "output", Package: "a", Test: "TestY", Output: "needs root\n"}},
				{1, event{Action: "skip", Package: "a", Test: "TestY"}},
				{1, event{Action: "pass", Package: "a", Elapsed: 1}},
			},
			want: `
  pass TestX  1.0s
  skip TestY
     needs root
ok   a  1.0s
1 tests passed, 0 failed, 1 skipped; 1 packages in 60s
`,
			wantOK: true,
		},
		"a subtest fails: the whole output of its test is shown, of others none": {
			events: []at{
				{0, event{Action: "output", Package: "a", Test: "TestX", Output: "before\n"}},
				{0, event{Action: "output", Package: "a", Test: "TestX/sub", Output: "why\n"}},
				{0, event{Action: "output", Package: "a", Test: "TestY", Output: "noise\n"}},
				{0, event{Action: "fail", Package: "a", Test: "TestX/sub"}},
				{0, event{Action: "fail", Package: "a", Test: "TestX", Elapsed: 2}},
				{0, event{Action: "pass", Package: "a", Test: "TestY"}},
				{0, event{Action: "output", Package: "a", Output: "FAIL\n"}},
				{0, event{Action: "fail", Package: "a", Elapsed: 2}},
			},
			want: `
  FAIL TestX  2.0s
     before
     why
FAIL a  2.0s

failed:
     a TestX
          before
          why
1 tests passed, 1 failed, 0 skipped; 1 packages in 60s
`,
		},
		"a test has much to say: the sum has the beginning, without what go test adds": {
			events: []at{
				{0, event{Action: "output", Package: "a", Test: "TestX", Output: "=== RUN   TestX\nlog\n--- FAIL: TestX (1.00s)\n    x_test.go:1: got 1, want 2\n"}},
				{0, event{Action: "output", Package: "a", Test: "TestX", Output: lines("", 2, gistLines+1)}},
				{0, event{Action: "fail", Package: "a", Test: "TestX", Elapsed: 1}},
				{0, event{Action: "fail", Package: "a", Elapsed: 1}},
			},
			want: `
  FAIL TestX  1.0s
     === RUN   TestX
     log
     --- FAIL: TestX (1.00s)
         x_test.go:1: got 1, want 2
` + lines("     ", 2, gistLines+1) + `FAIL a  1.0s

failed:
     a TestX
              x_test.go:1: got 1, want 2
` + lines("          ", 2, gistLines) + `0 tests passed, 1 failed, 0 skipped; 1 packages in 60s
`,
		},
		"a test logs much before it fails: the reason comes first": {
			events: []at{
				{0, event{Action: "output", Package: "a", Test: "TestX", Output: lines("", 1, 2*gistLeast)}},
				{0, event{Action: "output", Package: "a", Test: "TestX", Output: "    x_test.go:1: got 1, want 2\n"}},
				{0, event{Action: "fail", Package: "a", Test: "TestX", Elapsed: 1}},
				{0, event{Action: "fail", Package: "a", Elapsed: 1}},
			},
			want: `
  FAIL TestX  1.0s
         x_test.go:1: got 1, want 2
     all of it:
` + lines("     ", 1, 2*gistLeast) + `         x_test.go:1: got 1, want 2
FAIL a  1.0s

failed:
     a TestX
              x_test.go:1: got 1, want 2
0 tests passed, 1 failed, 0 skipped; 1 packages in 60s
`,
		},
		"a build fails: the compiler's words are shown": {
			events: []at{
				{0, event{Action: "build-output", ImportPath: "a", Output: "a.go:1: no\n"}},
				{0, event{Action: "build-fail", ImportPath: "a"}},
			},
			want: `
FAIL build of a
     a.go:1: no

failed:
     build of a
          a.go:1: no
0 tests passed, 1 failed, 0 skipped; 0 packages in 60s
`,
		},
		"the process dies in a test: its output is not lost": {
			events: []at{
				{0, event{Action: "run", Package: "a", Test: "TestX"}},
				{0, event{Action: "output", Package: "a", Test: "TestX", Output: "panic: boom\n"}},
			},
			want: `
FAIL a did not finish
     panic: boom

failed:
     a
          panic: boom
0 tests passed, 1 failed, 0 skipped; 0 packages in 60s
`,
		},
		"nothing finishes for long: says what runs": {
			events: []at{
				{0, event{Action: "alive"}},
				{25, event{Action: "alive"}},
				{26, event{Action: "run", Package: "a", Test: "TestX"}},
				{50, event{Action: "alive"}},
				{51, event{Action: "pass", Package: "a", Test: "TestX"}},
				{51, event{Action: "pass", Package: "a", Elapsed: 25}},
				{55, event{Action: "alive"}},
			},
			want: `
  ...  25s, compiling
  ...  50s, running a TestX (24s)
ok   a  25.0s
1 tests passed, 0 failed, 0 skipped; 1 packages in 60s
`,
			wantOK: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := newReport(&out, tc.tests, start)
			for _, e := range tc.events {
				now := start.Add(time.Duration(e.second) * time.Second)
				if e.event.Action == "alive" {
					r.alive(now)
					continue
				}
				r.add(e.event, now)
			}
			if ok := r.finish(start.Add(time.Minute)); ok != tc.wantOK {
				t.Errorf("finish() = %t, want %t", ok, tc.wantOK)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), out.String()); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConsumePassesForeignLinesOn(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out, false, time.Now())
	in := "go: downloading x\n{\"Action\":\"pass\",\"Package\":\"a\"}\nlast line without end"
	if err := consume(strings.NewReader(in), r); err != nil {
		t.Fatal(err)
	}
	want := "go: downloading x\nok   a  0.0s\nlast line without end\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// lines are the numbers from first to last, a line each.
func lines(indent string, first, last int) string {
	var b strings.Builder
	for n := first; n <= last; n++ {
		fmt.Fprintf(&b, "%s%d\n", indent, n)
	}
	return b.String()
}
