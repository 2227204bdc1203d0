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

// origin is a machine, versions and a command, with all workloads that were
// measured with them.
type origin struct {
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
		at := slices.IndexFunc(all, func(o origin) bool { return o.source == source })
		if at < 0 {
			at = len(all)
			all = append(all, origin{source: source})
		}
		all[at].workloads = append(all[at].workloads, w)
	}
	return all
}

// sources tells where the figures come from.
func sources(f result.File) string {
	var parts []string
	for _, o := range origins(f) {
		s := o.source
		var text strings.Builder
		line := func(name, format string, args ...any) {
			fmt.Fprintf(&text, "- %s: %s\n", name, fmt.Sprintf(format, args...))
		}
		text.WriteString(measuredOn(o.workloads) + ":\n\n")
		line("Command", "`%s`", s.Command)
		line("Stowage", "%s", known(s.Version))
		line("Kubernetes", "%s", known(s.Kubernetes))
		line("Go", "%s", known(strings.TrimPrefix(s.Go, "go")))
		line("Machine", "%s of %s, %s of memory", plural(s.CPUs, "processor"), known(s.CPU), gibibytes(s.Memory))
		line("System", "%s", known(s.System))
		parts = append(parts, text.String())
	}
	return strings.Join(parts, "\n")
}

// measuredOn lists workloads by the day on which they were measured, in UTC:
// "On 2026-11-21 static-100 and single, on 2026-11-22 static-5000".
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
		parts = append(parts, "on "+day+" "+strings.Join(names[day], ", "))
	}
	return capital(strings.Join(parts, "; "))
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
