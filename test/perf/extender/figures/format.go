// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func ms(millis float64) string {
	switch {
	case millis < 10:
		return fmt.Sprintf("%.2f ms", millis)
	case millis >= 1000:
		return fmt.Sprintf("%.2f s", millis/1000)
	default:
		return fmt.Sprintf("%.1f ms", millis)
	}
}

// count is a number, with commas as the other pages have them.
func count(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// table writes a table whose first column has names and whose others have figures.
func table(columns string, rows [][]string) string {
	names := strings.Split(columns, " | ")
	var b strings.Builder
	b.WriteString("| " + strings.Join(names, " | ") + " |\n| ---" + strings.Repeat(" | --:", len(names)-1) + " |\n")
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String()
}

// sources tells where the figures come from. Parts that have all of it in common are told
// of at once.
func (f *File) sources() string {
	var order []Circumstances
	names := map[Circumstances][]string{}
	add := func(name string, c Circumstances) {
		key := c
		key.Source.Time, key.Load = time.Time{}, 0
		if names[key] == nil {
			order = append(order, key)
		}
		names[key] = append(names[key], fmt.Sprintf("%s on %s (load average before: %.1f)", name, c.Source.Time.UTC().Format("2006-01-02 15:04"), c.Load))
	}
	if f.Filter != nil {
		add("filter", f.Filter.Circumstances)
	}
	for _, w := range f.Workloads {
		add(w.Name, Circumstances{Source: w.Source, Load: w.Load})
	}
	if len(order) == 0 {
		return "\nNothing was measured yet.\n"
	}
	var b strings.Builder
	b.WriteString("\n## Where the figures come from\n\nA load average of much more than 0 says that others used the machine meanwhile, and the figures are worse for it.\netcd does not wait for its disk (no fsync).\n")
	for _, c := range order {
		s := c.Source
		fmt.Fprintf(&b, "\n%s, UTC:\n\n", strings.Join(names[c], "; "))
		fmt.Fprintf(&b, "- Command: `%s`\n- Stowage: %s\n- Kubernetes: %s\n- Go: %s\n", s.Command, s.Version, s.Kubernetes, strings.TrimPrefix(s.Go, "go"))
		fmt.Fprintf(&b, "- Machine: %d processors of %s, %.1f GiB of memory\n- System: %s\n", s.CPUs, s.CPU, float64(s.Memory)/(1<<30), s.System)
	}
	return b.String()
}
