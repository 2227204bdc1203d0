// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"strings"

	"stowage.dev/stowage/test/perf/page"
)

// What the provisioner must reach.
const (
	mostAppearing = 1000 // ms
	mostReleasing = 2000 // ms
	mostRSS       = 40 * mebibyte
	mostGroup     = 64 * mebibyte
)

// floors compares the figures with the limits.
func (f *File) floors() [][]string {
	var rows [][]string
	add := func(name, wanted, measured string, met bool) {
		rows = append(rows, page.Floor(name, wanted, measured, met))
	}
	if f.Appearing != nil {
		for _, s := range f.Appearing.Series {
			if !s.Bare {
				add("disk appears → Available, slowest of all: "+s.Name, "< 1 s", ms(s.quantile(1)), s.quantile(1) < mostAppearing)
			}
		}
	}
	if f.Releasing != nil {
		for _, s := range f.Releasing.Series {
			if strings.HasSuffix(s.Name, "mounted") { // devices are not empty, they are zeroed
				add("Released → Available, slowest of all: "+s.Name+", empty", "< 2 s", ms(s.quantile(1)), s.quantile(1) < mostReleasing)
			}
		}
	}
	if r := f.Resting; r != nil {
		add(fmt.Sprintf("RSS at rest with %d volumes", r.Volumes), "< 40 MiB", mib(r.RSS), r.RSS < mostRSS)
		add("RSS, largest since its start", "< 40 MiB", mib(r.PeakRSS), r.PeakRSS < mostRSS)
		add("requests of devices while rescanned", "0", page.Count(r.IO), r.IO == 0 && r.Scans > 0)
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

// parts are the measured parts, with their circumstances.
func (f *File) parts() []page.Part {
	var parts []page.Part
	if f.Appearing != nil {
		parts = append(parts, page.Part{Name: "latencies", Circumstances: f.Appearing.Circumstances})
	}
	if f.Resting != nil {
		parts = append(parts, page.Part{Name: "rest", Circumstances: f.Resting.Circumstances})
	}
	if f.Wiping != nil {
		parts = append(parts, page.Part{Name: "wiping", Circumstances: f.Wiping.Circumstances})
	}
	if f.Watching != nil {
		parts = append(parts, page.Part{Name: "watching", Circumstances: f.Watching.Circumstances})
	}
	return parts
}
