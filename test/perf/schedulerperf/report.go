// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/result"
)

// report is the stored data.
type report struct {
	Source    result.Source `json:"source"`
	Rounds    int           `json:"rounds"`
	Workloads []measured    `json:"workloads"`
}

const explanation = `# scheduler_perf

Stowage's scheduler and the stock one under upstream's scheduler_perf: kube-apiserver, scheduler and a stand-in for the PV
controller share one process; etcd runs beside it without syncing to disk. Both arms are the same binary with default settings
and VolumeBinding or VolumeTopology. Each run is a process with an empty etcd; the arms run in turn.

` + "`volumes`" + ` are upstream's workloads with persistent volumes, without their thresholds, which are of other machines. Their claims
are bound already, so Stowage must only keep up: a median ratio of at least 0.95, or overlapping intervals.
` + "`waitforfirstconsumer`" + ` are our own: existing local volumes, or claims that are provisioned where CSIStorageCapacity allows, by
a provisioner that answers at once.

Pods/s: measured pods, from the first that the scheduler sees to the last one bound; median, and slowest to fastest round.
Reported: scheduler_perf's own mean of whole seconds, of which short runs have few. Latency: of a pod, from seen to bound.
Ratio: median of the rounds' ratios. An arm without figures was not run: scheduler_perf stops after ten minutes.

`

// table is the figures as a table in Markdown.
func (r *report) table() string {
	var rows [][]string
	for _, m := range r.Workloads {
		rows = append(rows, []string{
			m.Name, strconv.Itoa(m.Nodes), fmt.Sprintf("%.0f", result.Median(m.of(result.Direct, func(f figures) float64 { return float64(f.Pods) }))),
			spread(m.of(result.Stock, figures.Throughput)), spread(m.of(result.Direct, figures.Throughput)),
			number(m.ratio()), string(m.verdict()),
			m.pair(func(f figures) float64 { return f.Reported }, ""), m.pair(func(f figures) float64 { return 1000 * f.P50 }, " ms"),
		})
	}
	return page.Aligned(
		[]string{"workload", "nodes", "pods", "pods/s, stock", "pods/s, stowage", "ratio", "keeps up", "reported, stock / stowage", "latency p50, stock / stowage"},
		[]string{"---", "---:", "---:", "---", "---", "---:", "---", "---", "---"}, rows)
}

// pair is the medians of both arms, with a dash for one without value.
func (m measured) pair(figure func(figures) float64, unit string) string {
	var texts []string
	known := false
	for _, arm := range []result.Arm{result.Stock, result.Direct} {
		text := "–"
		if value := result.Median(m.of(arm, figure)); value != 0 {
			text, known = number(value)+unit, true
		}
		texts = append(texts, text)
	}
	if !known {
		return ""
	}
	return strings.Join(texts, " / ")
}

// spread is the median and, in brackets, the least and the greatest.
func spread(sorted []float64) string {
	if len(sorted) == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s to %s)", number(result.Median(sorted)), number(sorted[0]), number(sorted[len(sorted)-1]))
}

// number has about three digits; nothing for 0, which was not
// measured.
func number(value float64) string {
	switch {
	case value == 0:
		return ""
	case value < 10:
		return fmt.Sprintf("%.2f", value)
	case value < 100:
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.0f", value)
}

// store writes the page and the file with the same name beside it.
func (r *report) store(dir string) error {
	var text strings.Builder
	text.WriteString(explanation)
	s := r.Source
	fmt.Fprintf(&text, "%s, rounds: %d. Stowage %s, Kubernetes %s, %s, %s; %d CPUs (%s), %.1f GiB.\n\n    %s\n\n",
		s.Time.Format("2 January 2006"), r.Rounds, s.Version, s.Kubernetes, s.Go, s.System, s.CPUs, s.CPU, float64(s.Memory)/(1<<30), s.Command)
	text.WriteString(r.table())
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return page.Store(filepath.Join(dir, "scheduler-perf.json"), data, text.String())
}

// missed is an error that names the workloads on which Stowage does not keep up.
func (r *report) missed() error {
	var names []string
	for _, m := range r.Workloads {
		if m.verdict() == missed {
			names = append(names, fmt.Sprintf("%s (ratio %.2f)", m.Name, m.ratio()))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("slower than the stock scheduler by more than the floor of %.2f allows: %s", floorRatio, strings.Join(names, ", "))
}
