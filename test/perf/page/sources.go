// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"
	"time"

	"stowage.dev/stowage/test/perf/result"
)

// Circumstances are where figures come from, and how busy the machine was.
type Circumstances struct {
	Source result.Source `json:"source"`
	// Load is the machine's load average over the minute before, in tasks.
	Load float64 `json:"load"`
}

// Part is what was measured at one time.
type Part struct {
	Name string
	Circumstances
}

const sourcesText = `
## Where the figures come from

A load average of much more than 0 says that others used the machine meanwhile, and the figures are worse for it.
etcd does not wait for its disk (no fsync).
`

// Sources tells where the figures come from. Parts that have all but their time in common
// are told of at once.
func Sources(parts []Part) string {
	if len(parts) == 0 {
		return "\nNothing was measured yet.\n"
	}
	var order []result.Source
	names := map[result.Source][]string{}
	for _, p := range parts {
		key := p.Source
		key.Time = time.Time{}
		if names[key] == nil {
			order = append(order, key)
		}
		names[key] = append(names[key], fmt.Sprintf("%s on %s (load average before: %.1f)", p.Name, p.Source.Time.UTC().Format("2006-01-02 15:04"), p.Load))
	}
	var b strings.Builder
	b.WriteString(sourcesText)
	for _, s := range order {
		fmt.Fprintf(&b, "\n%s, UTC:\n\n", strings.Join(names[s], "; "))
		fmt.Fprintf(&b, "- Command: `%s`\n- Stowage: %s\n- Kubernetes: %s\n- Go: %s\n", s.Command, s.Version, s.Kubernetes, strings.TrimPrefix(s.Go, "go"))
		fmt.Fprintf(&b, "- Machine: %d processors of %s, %.1f GiB of memory\n- System: %s\n", s.CPUs, s.CPU, float64(s.Memory)/(1<<30), s.System)
	}
	return b.String()
}
