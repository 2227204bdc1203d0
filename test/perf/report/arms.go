// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"stowage.dev/stowage/test/perf/result"
)

// cutMark marks arms that were stopped before all their pods were done.
const cutMark = " †"

// Table shows a workload on a terminal: a line for each arm, in columns, and
// notes below it.
func Table(w result.Workload) string {
	g := armTable(&w)
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n\n", w.Name, sentence(&w))
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{g.head}, g.rows...) {
		// Names of arms are left-aligned, figures right-aligned.
		first := row[0] + strings.Repeat(" ", width(g)-utf8.RuneCountInString(row[0]))
		fmt.Fprintf(columns, "%s\t%s\t\n", first, strings.Join(row[1:], "\t"))
	}
	columns.Flush() //nolint:errcheck // strings.Builder takes everything.
	for _, note := range notes(&w) {
		fmt.Fprintf(&text, "\n%s\n", strings.ReplaceAll(note, "**", ""))
	}
	return text.String()
}

// width is that of the first column in characters.
func width(g grid) int {
	widest := utf8.RuneCountInString(g.head[0])
	for _, row := range g.rows {
		widest = max(widest, utf8.RuneCountInString(row[0]))
	}
	return widest
}

// armTable has a row for each arm of a workload that ran.
func armTable(w *result.Workload) grid {
	g := grid{head: []string{
		"", "pods/s", "p50", "p99", "CPU/pod", "PV ctrl CPU/pod", "peak memory",
		"writes/pod", "409s", "Filter", "given twice", "done", "rounds",
	}}
	for _, arm := range result.Arms {
		runs := w.Of(arm)
		if len(runs) == 0 {
			continue
		}
		name := string(arm)
		if cut(runs) {
			name += cutMark
		}
		g.rows = append(g.rows, []string{
			name,
			spread(w, arm),
			seconds(w.Median(arm, p50)),
			seconds(w.Median(arm, p99)),
			seconds(w.Median(arm, result.Run.CPUPerPod)),
			seconds(w.Median(arm, pvControllerCPUPerPod)),
			memory(w.Median(arm, peakMemory)),
			number(w.Median(arm, result.Run.WritesPerPod)),
			conflicts(w, arm),
			seconds(w.Median(arm, filterMean)),
			count(sum(runs, func(r result.Run) int { return r.GivenTwice })),
			done(runs),
			count(len(runs)),
		})
	}
	return g.without()
}

// The figures of a run that are no methods of it.
func p50(r result.Run) float64        { return r.P50 }
func p99(r result.Run) float64        { return r.P99 }
func peakMemory(r result.Run) float64 { return float64(r.PeakMemory) }
func filterMean(r result.Run) float64 { return r.FilterMean }

func pvControllerCPUPerPod(r result.Run) float64 {
	if r.Done == 0 {
		return 0
	}
	return r.PVControllerCPU / float64(r.Done)
}

// spread is the median throughput of an arm, with the minimum and maximum if it
// had several rounds: "12.1 (11.8–12.6)".
func spread(w *result.Workload, arm result.Arm) string {
	runs := w.Of(arm)
	middle := w.Median(arm, result.Run.Throughput)
	if len(runs) < 2 || middle == 0 {
		return number(middle)
	}
	least, most := middle, middle
	for _, r := range runs {
		least, most = min(least, r.Throughput()), max(most, r.Throughput())
	}
	return fmt.Sprintf("%s (%s–%s)", number(middle), digits(least), digits(most))
}

// conflicts are an arm's refused writes per pod, with their share of its writes:
// "0.389 (6.5 %)".
func conflicts(w *result.Workload, arm result.Arm) string {
	if w.Median(arm, result.Run.WritesPerPod) == 0 {
		return missing
	}
	perPod := w.Median(arm, result.Run.ConflictsPerPod)
	if perPod == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%s)", digits(perPod), percent(w.Median(arm, result.Run.ConflictShare)))
}

// done is how many of how many pods were done in a round: "1,000/1,000", and
// "28–31/100" if the rounds differ.
func done(runs []result.Run) string {
	return span(runs, func(r result.Run) int { return r.Done }) + "/" + span(runs, func(r result.Run) int { return r.Asked })
}

func span(runs []result.Run, of func(result.Run) int) string {
	least, most := of(runs[0]), of(runs[0])
	for _, r := range runs[1:] {
		least, most = min(least, of(r)), max(most, of(r))
	}
	if least == most {
		return count(least)
	}
	return count(least) + "–" + count(most)
}

// cut reports that at least one of the runs was stopped early.
func cut(runs []result.Run) bool { return slices.ContainsFunc(runs, result.Run.Cut) }

func sum(runs []result.Run, of func(result.Run) int) int {
	total := 0
	for _, r := range runs {
		total += of(r)
	}
	return total
}

// notes is what must not be missed below the table of a workload.
func notes(w *result.Workload) []string {
	var all []string
	for _, arm := range result.Arms {
		if twice := sum(w.Of(arm), func(r result.Run) int { return r.GivenTwice }); twice > 0 {
			all = append(all, fmt.Sprintf("**A fault: %s gave %s twice.**", arm, plural(twice, "volume")))
		}
	}
	if cut(w.Runs) {
		all = append(all, "† Cut off before all its pods were done: its figures are of the pods that were, until the last of them.")
	}
	return all
}
