// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"stowage.dev/stowage/test/perf/result"
)

// origin is a machine and versions, with all commands that measured with them.
type origin struct {
	source result.Source // without its time, command and version
	runs   []run
}

// run is a command, and the workloads that it measured.
type run struct {
	source    result.Source // without its time
	workloads []*result.Workload
}

// origins groups the workloads of a file, both in its order.
func origins(f result.File) []origin {
	var all []origin
	for i := range f.Workloads {
		w := &f.Workloads[i]
		source := w.Source
		source.Time = time.Time{}
		machine := source
		machine.Command, machine.Version = "", ""
		at := slices.IndexFunc(all, func(o origin) bool { return o.source == machine })
		if at < 0 {
			at = len(all)
			all = append(all, origin{source: machine})
		}
		runs := &all[at].runs
		at = slices.IndexFunc(*runs, func(r run) bool { return r.source == source })
		if at < 0 {
			at = len(*runs)
			*runs = append(*runs, run{source: source})
		}
		(*runs)[at].workloads = append((*runs)[at].workloads, w)
	}
	return all
}

// sources returns where the figures come from.
func sources(f result.File) string {
	var parts []string
	for _, o := range origins(f) {
		s := o.source
		var text strings.Builder
		fmt.Fprintf(&text, "Kubernetes %s, Go %s, %s of %s, %s of memory, %s:\n\n", known(s.Kubernetes), known(strings.TrimPrefix(s.Go, "go")),
			plural(s.CPUs, "processor"), known(s.CPU), gibibytes(s.Memory), known(s.System))
		for _, r := range o.runs {
			fmt.Fprintf(&text, "- %s: Stowage %s, `%s`\n", measuredOn(r.workloads), known(r.source.Version), r.source.Command)
		}
		parts = append(parts, text.String())
	}
	return strings.Join(parts, "\n")
}

// measuredOn lists workloads by the day on which they were measured, in UTC:
// "2026-11-21 static-100, single; 2026-11-22 static-5000".
func measuredOn(workloads []*result.Workload) string {
	var days []string
	names := map[string][]string{}
	for _, w := range workloads {
		day := w.Source.Time.UTC().Format(time.DateOnly)
		if names[day] == nil {
			days = append(days, day)
		}
		names[day] = append(names[day], w.Name)
	}
	slices.Sort(days)
	parts := make([]string, 0, len(days))
	for _, day := range days {
		parts = append(parts, day+" "+strings.Join(names[day], ", "))
	}
	return strings.Join(parts, "; ")
}

// known is a text, or missing.
func known(text string) string {
	if text == "" {
		return missing
	}
	return text
}

func gibibytes(bytes int64) string {
	if bytes == 0 {
		return missing
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
