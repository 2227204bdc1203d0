// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"strings"
	"time"
)

// What the agent must reach.
const (
	mostAppearing = 1000 // ms
	mostReleasing = 2000 // ms
	mostRSS       = 40 * mebibyte
	mostGroup     = 64 * mebibyte
)

// floors holds what was measured against what is wanted.
func (f *File) floors() [][]string {
	var rows [][]string
	add := func(name, wanted, measured string, met bool) {
		outcome := "met"
		if !met {
			outcome = "**missed**"
		}
		rows = append(rows, []string{name, wanted, measured, outcome})
	}
	if f.Appearing != nil {
		for _, s := range f.Appearing.Series {
			if !s.Bare {
				add("disk appears → Available, slowest of all: "+s.Name, "< 1 s", ms(s.Quantile(1)), s.Quantile(1) < mostAppearing)
			}
		}
	}
	if f.Releasing != nil {
		for _, s := range f.Releasing.Series {
			if strings.HasSuffix(s.Name, "mounted") { // devices are not empty, they are zeroed
				add("Released → Available, slowest of all: "+s.Name+", empty", "< 2 s", ms(s.Quantile(1)), s.Quantile(1) < mostReleasing)
			}
		}
	}
	if r := f.Resting; r != nil {
		add(fmt.Sprintf("RSS at rest with %d volumes", r.Volumes), "< 40 MiB", mib(r.RSS), r.RSS < mostRSS)
		add("RSS, largest since the agent's start", "< 40 MiB", mib(r.PeakRSS), r.PeakRSS < mostRSS)
		add("requests of devices while rescanned", "0", count(r.IO), r.IO == 0 && r.Scans > 0)
	}
	if f.Wiping != nil {
		for _, run := range f.Wiping.Runs {
			if run.PeakGroup > 0 {
				add("memory of the cgroup, most while wiping: `"+run.Command+"`", "< 64 MiB", mib(run.PeakGroup), run.PeakGroup < mostGroup)
			}
		}
	}
	return rows
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
	if f.Appearing != nil {
		add("latencies", f.Appearing.Circumstances)
	}
	if f.Resting != nil {
		add("rest", f.Resting.Circumstances)
	}
	if f.Wiping != nil {
		add("wiping", f.Wiping.Circumstances)
	}
	if f.Watching != nil {
		add("watching", f.Watching.Circumstances)
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
