// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command budgets prints how long suites and stages of the tests took beside how long they
// may take (table.go):
//
//	go run ./hack/budgets FILE...                  files of events from `go test -json`
//	go run ./hack/budgets -stage 'make test=412'   seconds of a stage, any number of times
//
// What is over its budget is marked. That is no error: the budgets are for two idle
// processors, and a loaded machine must not turn a run red.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
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
	spans := map[string][]span{}
	for _, name := range flag.Args() {
		if err := readFile(name, spans); err != nil {
			fmt.Fprintln(os.Stderr, "budgets:", err)
			os.Exit(1)
		}
	}
	for name, all := range spans {
		took[name] = covered(all)
	}
	if err := write(os.Stdout, took, deadline.Stretch); err != nil {
		fmt.Fprintln(os.Stderr, "budgets:", err)
		os.Exit(1)
	}
}

// span is when a package began and ended.
type span struct {
	path       string
	begin, end time.Time
}

// covered returns how long at least one of the packages ran: packages of one suite run side
// by side, and so do suites.
func covered(all []span) time.Duration {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b span) int { return a.begin.Compare(b.begin) })
	var sum time.Duration
	var end time.Time
	for _, s := range all {
		begin := s.begin
		if begin.Before(end) {
			begin = end
		}
		if s.end.After(begin) {
			sum, end = sum+s.end.Sub(begin), s.end
		}
	}
	return sum
}

// event is what `go test -json` prints, as `go doc test2json` describes it.
type event struct {
	Time    time.Time
	Action  string
	Package string
	Test    string
}

func readFile(name string, spans map[string][]span) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return read(f, spans)
}

// read adds the packages of the events to the spans of their suites. It skips lines that are
// not events.
func read(in io.Reader, spans map[string][]span) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil && e.Test == "" && e.Package != "" {
			add(e, spans)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func add(e event, spans map[string][]span) {
	suite := suiteOf(strings.TrimPrefix(e.Package, module))
	switch {
	case suite == "":
	case e.Action == "start":
		spans[suite] = append(spans[suite], span{e.Package, e.Time, e.Time})
	case e.Action == "pass", e.Action == "fail":
		for i := range spans[suite] {
			if s := &spans[suite][i]; s.path == e.Package {
				s.end = e.Time
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
