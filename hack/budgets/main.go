// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command budgets prints how long suites and stages of the tests took beside how long they
// may take:
//
//	go run ./hack/budgets FILE...                  files of events from `go test -json`
//	go run ./hack/budgets -stage 'make test=412'   seconds of a stage, any number of times
//
// What is over its budget is marked. That is no error: the budgets are for two idle
// processors, and a loaded machine must not turn a run red.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"stowage.dev/stowage/test/deadline"
)

const module = "stowage.dev/stowage/"

func main() {
	took := map[string]time.Duration{}
	flag.Func("stage", "NAME=SECONDS of a stage", func(value string) error {
		name, seconds, _ := strings.Cut(value, "=")
		n, err := strconv.Atoi(seconds)
		took[name] = time.Duration(n) * time.Second
		return err
	})
	flag.Parse()
	if err := run(took, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "budgets:", err)
		os.Exit(1)
	}
}

func run(took map[string]time.Duration, files []string) error {
	for _, name := range files {
		events, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		read(events, took)
	}
	return write(os.Stdout, took, deadline.Stretch)
}

// event is what `go test -json` prints, as `go doc test2json` describes it.
type event struct {
	Time    time.Time
	Action  string
	Package string
	Test    string
}

// read adds the time in which at least one package of a suite ran: packages of one suite run side
// by side, and so do suites. It skips lines that are not events.
func read(events []byte, took map[string]time.Duration) {
	running, begin := map[string]int{}, map[string]time.Time{} // by suite
	for line := range bytes.Lines(events) {
		var e event
		if json.Unmarshal(line, &e) != nil || e.Test != "" || e.Package == "" {
			continue
		}
		suite := suiteOf(strings.TrimPrefix(e.Package, module))
		switch e.Action {
		case "start":
			if running[suite]++; running[suite] == 1 {
				begin[suite] = e.Time
			}
		case "pass", "fail", "skip":
			if running[suite]--; suite != "" && running[suite] == 0 {
				took[suite] += e.Time.Sub(begin[suite])
			}
		}
	}
}

// suiteOf returns the name of the suite that a package belongs to, empty for none.
func suiteOf(path string) string {
	for _, s := range suites {
		for _, p := range s.packages {
			folder, below := strings.CutSuffix(p, "/...")
			if path == folder || below && strings.HasPrefix(path, folder+"/") {
				return s.name
			}
		}
	}
	return ""
}

// write prints a table of what took time, in the order of the budgets, which stretch
// multiplies.
func write(out io.Writer, took map[string]time.Duration, stretch func(time.Duration) time.Duration) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := 0
	for _, b := range slices.Concat(suites, stages) {
		t, known := took[b.name]
		if !known {
			continue
		}
		mark := ""
		if limit := stretch(b.limit); t > limit {
			mark = fmt.Sprintf("OVER by %.0f%%", 100*(t.Seconds()/limit.Seconds()-1))
		}
		if rows++; rows == 1 {
			fmt.Fprintf(table, "\nsuite\tbudget\ttook\t\t\n")
		}
		fmt.Fprintf(table, "%s\t%.0fs\t%.0fs\t%s\t\n", b.name, stretch(b.limit).Seconds(), t.Seconds(), mark)
	}
	if rows == 0 {
		return nil
	}
	fmt.Fprintf(table, "\n")
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Budgets are for 2 idle processors and warm caches; here are %d, and the load is %s.\n", runtime.NumCPU(), load())
	return err
}

// load is the machine's load average over the last 15 minutes, where it can be read.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return fields[2]
}

// budget is how long something may take on two idle processors when all caches are warm:
// a suite, which is a group of packages, or a stage of .ci/run, which has none.
type budget struct {
	name string
	// packages are folders of the module; "/..." at the end includes what is below. A
	// package belongs to the first suite that names it.
	packages []string
	limit    time.Duration
}

// suites and stages are all budgets. A change that makes a suite slower than its budget shortens
// another test, moves iterations to `make soak`, or raises the number here; the commit
// message gives the reason. The suites of `make test` fit into its stage, in which two
// packages run at a time but for unit tests and benchmarks.
var (
	suites = []budget{
		{"unit tests", []string{"pkg/...", "cmd/...", "hack/...", "test/await", "test/deadline", "test/requirements", "test/perf/figures", "test/perf/page", "test/perf/parts", "test/perf/source"}, 120 * time.Second},
		{"test cluster", []string{"test/cluster/..."}, 60 * time.Second},
		{"benchmarks", []string{"test/perf/..."}, 140 * time.Second},
		// The first package also runs with the in-place PV controller.
		{"scheduling", []string{"test/integration/scheduling", "test/integration/provisioning", "test/integration/fixture"}, 130 * time.Second},
		{"extender", []string{"test/integration/extender"}, 150 * time.Second},
		{"faults of the scheduler", []string{"test/integration/faults"}, 200 * time.Second},
		{"disks", []string{"test/integration/disks", "test/integration/provisioner", "test/integration/takeover"}, 125 * time.Second},
		{"faults of disks", []string{"test/integration/diskfaults", "test/integration/diskstress"}, 190 * time.Second},
		{"controllers", []string{"test/integration/nodeloss", "test/integration/cleaningjobs", "test/integration/pav", "test/integration/pavvolumes", "test/integration/pvbinder"}, 150 * time.Second},
		{"manifests and rights", []string{"test/integration/..."}, 130 * time.Second},
		{"end to end", []string{"test/e2e/..."}, 9 * time.Minute},
	}
	stages = []budget{
		{"make test", nil, 15 * time.Minute},
		{"older minors", nil, 3 * time.Minute},
		{"make verify", nil, 5 * time.Minute},
		{"make e2e", nil, 12 * time.Minute},
		{"all of .ci/run", nil, 35 * time.Minute},
	}
)
