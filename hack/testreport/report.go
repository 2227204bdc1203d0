// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is what `go test -json` prints, as `go doc test2json` describes it. Builds have an
// ImportPath in the place of a Package.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// report keeps what has not been decided yet: the output of tests that may still fail.
// It is not safe for concurrent use.
type report struct {
	out   io.Writer
	tests bool

	began   time.Time
	printed time.Time // when the last line went out

	packages map[string]*packageRun
	builds   map[string]*strings.Builder // compiler output by import path

	passed, skipped int // top-level tests
	failed          []failure
	packagesRun     int
}

// failure is something that failed, and what it had to say.
type failure struct{ name, output string }

// packageRun is one package whose tests are running.
type packageRun struct {
	output  strings.Builder             // of the package itself: panics, TestMain
	outputs map[string]*strings.Builder // by top-level test, its subtests included
	running map[string]time.Time        // top-level tests by start
	cached  bool
	failed  bool // a test of it failed
}

func newReport(out io.Writer, tests bool, now time.Time) *report {
	return &report{
		out: out, tests: tests, began: now, printed: now,
		packages: map[string]*packageRun{}, builds: map[string]*strings.Builder{},
	}
}

// foreign passes on a line that is not an event, such as a word from the go command.
func (r *report) foreign(line []byte) {
	fmt.Fprintf(r.out, "%s\n", strings.TrimRight(string(line), "\n"))
}

// add takes one event that arrived at now.
func (r *report) add(e event, now time.Time) {
	switch {
	case e.Action == "build-output":
		r.build(e.ImportPath).WriteString(e.Output)
	case e.Action == "build-fail":
		r.failed = append(r.failed, failure{"build of " + e.ImportPath, r.build(e.ImportPath).String()})
		r.print(now, "FAIL build of %s\n%s", e.ImportPath, indent(r.build(e.ImportPath).String()))
	case e.Test == "":
		r.addPackage(e, now)
	default:
		r.addTest(e, now)
	}
}

func (r *report) addPackage(e event, now time.Time) {
	p := r.pkg(e.Package)
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
		p.cached = p.cached || strings.HasSuffix(e.Output, "\t(cached)\n")
	case "pass":
		r.packagesRun++
		took := fmt.Sprintf("%.1fs", e.Elapsed)
		if p.cached {
			took = "cached"
		}
		r.print(now, "ok   %s  %s\n", e.Package, took)
		delete(r.packages, e.Package)
	case "fail":
		r.packagesRun++
		if !p.failed { // else its tests are in the list
			r.failed = append(r.failed, failure{e.Package, p.unexplained()})
		}
		r.print(now, "FAIL %s  %.1fs\n%s", e.Package, e.Elapsed, indent(p.unexplained()))
		delete(r.packages, e.Package)
	case "skip": // it has no tests
		delete(r.packages, e.Package)
	}
}

func (r *report) addTest(e event, now time.Time) {
	p := r.pkg(e.Package)
	top, _, isSubtest := strings.Cut(e.Test, "/")
	if e.Action == "output" {
		p.test(top).WriteString(e.Output)
		return
	}
	if isSubtest {
		return
	}
	switch e.Action {
	case "run":
		p.running[top] = now
		return
	case "pass":
		r.passed++
		if r.tests {
			r.print(now, "  pass %s  %.1fs\n", top, e.Elapsed)
		}
	case "skip":
		r.skipped++
		if r.tests {
			r.print(now, "  skip %s\n%s", top, indent(p.test(top).String()))
		}
	case "fail":
		p.failed = true
		f := failure{e.Package + " " + top, p.test(top).String()}
		r.failed = append(r.failed, f)
		r.print(now, "  FAIL %s  %.1fs\n%s", top, e.Elapsed, indent(f.reasonFirst()))
	default: // pause, cont, bench, attr
		return
	}
	delete(p.running, top)
	delete(p.outputs, top)
}

// alive says what is going on when nothing was printed for a while.
func (r *report) alive(now time.Time) {
	if now.Sub(r.printed) < quiet {
		return
	}
	var running []string
	for path, p := range r.packages {
		for test, since := range p.running {
			running = append(running, fmt.Sprintf("%s %s (%.0fs)", path, test, now.Sub(since).Seconds()))
		}
	}
	slices.Sort(running)
	doing := "compiling"
	if len(running) > 0 {
		doing = "running " + strings.Join(running[:min(3, len(running))], ", ")
	}
	r.print(now, "  ...  %.0fs, %s\n", now.Sub(r.began).Seconds(), doing)
}

// finish prints the sum and reports whether all is well.
func (r *report) finish(now time.Time) bool {
	// A package that never ended was cut off: its output is the only trace.
	for _, path := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[path]
		if text := p.unexplained(); text != "" {
			r.failed = append(r.failed, failure{path, text})
			r.print(now, "FAIL %s did not finish\n%s", path, indent(text))
		}
	}
	if len(r.failed) > 0 {
		r.print(now, "\nfailed:\n")
	}
	for _, f := range r.failed {
		r.print(now, "     %s\n%s", f.name, indent(indent(f.gist(max(gistLeast, gistLines/len(r.failed))))))
	}
	r.print(now, "%d tests passed, %d failed, %d skipped; %d packages in %.0fs\n", r.passed,
		len(r.failed), r.skipped, r.packagesRun, now.Sub(r.began).Seconds())
	return len(r.failed) == 0
}

// testLine is what t.Error and the like write.
var testLine = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

// The sum says again gistLines of what all failures together had to say, and gistLeast of
// each at least.
const gistLines, gistLeast = 80, 6

// reasonFirst is all that a failure had to say, after its gist if that is far from the
// beginning: where only a part of a long log is kept, it is the lines after FAIL.
func (f *failure) reasonFirst() string {
	gist := f.gist(2 * gistLeast)
	if i := strings.Index(f.output, gist); i < 0 || strings.Count(f.output[:i], "\n") > gistLeast {
		return gist + "all of it:\n" + f.output
	}
	return f.output
}

// gist is the beginning of what a failure had to say, so many lines at most, from the first
// one on that a test file has written, if one has. All of it stands where it failed; of a
// long run often only the end is kept.
func (f *failure) gist(lines int) string {
	var kept []string
	told := false
	for line := range strings.Lines(f.output) {
		if !told && testLine.MatchString(line) {
			kept, told = nil, true
		}
		if !strings.HasPrefix(line, "===") && !strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[:min(lines, len(kept))], "")
}

func (r *report) print(now time.Time, format string, args ...any) {
	r.printed = now
	fmt.Fprintf(r.out, format, args...)
}

func (r *report) pkg(path string) *packageRun {
	p := r.packages[path]
	if p == nil {
		p = &packageRun{outputs: map[string]*strings.Builder{}, running: map[string]time.Time{}}
		r.packages[path] = p
	}
	return p
}

func (r *report) build(path string) *strings.Builder {
	if r.builds[path] == nil {
		r.builds[path] = &strings.Builder{}
	}
	return r.builds[path]
}

func (p *packageRun) test(name string) *strings.Builder {
	if p.outputs[name] == nil {
		p.outputs[name] = &strings.Builder{}
	}
	return p.outputs[name]
}

// unexplained is what the package and its unfinished tests printed, without the verdict
// lines that the report words itself.
func (p *packageRun) unexplained() string {
	var kept strings.Builder
	for _, test := range slices.Sorted(maps.Keys(p.outputs)) {
		kept.WriteString(p.outputs[test].String())
	}
	for line := range strings.Lines(p.output.String()) {
		if line != "FAIL\n" && !strings.HasPrefix(line, "FAIL\t") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("     ")
		b.WriteString(strings.TrimRight(line, "\n"))
		b.WriteString("\n")
	}
	return b.String()
}
