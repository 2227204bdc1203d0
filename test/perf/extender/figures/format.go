// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"

	"stowage.dev/stowage/test/perf/page"
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

// parts are the measured parts, with their circumstances.
func (f *File) parts() []page.Part {
	var parts []page.Part
	if f.Filter != nil {
		parts = append(parts, page.Part{Name: "filter", Circumstances: f.Filter.Circumstances})
	}
	for _, w := range f.Workloads {
		parts = append(parts, page.Part{Name: w.Name, Circumstances: page.Circumstances{Source: w.Source, Load: w.Load}})
	}
	return parts
}
