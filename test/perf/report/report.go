// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report formats the results of benchmarks on whole clusters: as a page
// for readers, and as a table for terminals. Only Write does I/O: the rest reads
// no file and no clock, so that the same results always make the same page.
//
//	report.go   the page
//	page.go     the page as a file
//	text.go     what the page says on how it was measured
//	glance.go   its first table: ours against stock
//	floors.go   the figures that must not be fallen short of
//	arms.go     the table of a workload
//	sources.go  machines, versions, commands
//	format.go   numbers and units
package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"stowage.dev/stowage/test/perf/result"
)

// Markdown is the page of all results. Figures are the drawings to show on it,
// as paths relative to the page with slashes: "benchmarks/throughput.svg".
func Markdown(f result.File, figures ...string) string {
	var page strings.Builder
	page.WriteString(head)
	if len(f.Workloads) == 0 {
		page.WriteString("\nNothing has been measured yet.\n")
		return page.String()
	}
	section(&page, "At a glance", glance(f))
	section(&page, "Floors", floorTable(f))
	section(&page, "How it is measured", method)
	if len(figures) > 0 {
		section(&page, "Growth", growth(figures))
	}
	section(&page, "Workloads", workloads(f))
	section(&page, "Sources", sources(f))
	return page.String()
}

func section(page *strings.Builder, title, text string) {
	fmt.Fprintf(page, "\n## %s\n\n%s", title, text)
}

// workloads is a section for each workload.
func workloads(f result.File) string {
	var text strings.Builder
	text.WriteString(columnsExplained)
	for i := range f.Workloads {
		w := &f.Workloads[i]
		fmt.Fprintf(&text, "\n### %s\n\n%s\n\n%s", w.Name, sentence(w), markdownTable(armTable(w)))
		for _, note := range notes(w) {
			fmt.Fprintf(&text, "\n%s\n", note)
		}
	}
	return text.String()
}

// sentence describes a workload and its size: "One pod at a time. 50 nodes, 2
// volumes each, 1 claim a pod."
func sentence(w *result.Workload) string {
	var size []string
	if w.Nodes > 0 {
		size = append(size, plural(w.Nodes, "node"))
	}
	if w.VolumesPerNode > 0 {
		size = append(size, plural(w.VolumesPerNode, "volume")+" each")
	}
	if w.ClaimsPerPod > 0 {
		size = append(size, plural(w.ClaimsPerPod, "claim")+" a pod")
	}
	if len(size) == 0 {
		return capital(w.Title) + "."
	}
	return capital(w.Title) + ". " + capital(strings.Join(size, ", ")) + "."
}

// capital begins a text with a capital letter.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// grid is a table: the names of its columns, and its rows. The first column has
// names, the last one words if notes is set, all others figures.
type grid struct {
	head      []string
	rows      [][]string
	lastWords bool
}

// markdownTable writes a table, words left-aligned and figures right-aligned.
func markdownTable(g grid) string {
	var text strings.Builder
	line := func(cells []string) {
		escaped := make([]string, len(cells))
		for i, cell := range cells {
			escaped[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		text.WriteString("| " + strings.Join(escaped, " | ") + " |\n")
	}
	line(g.head)
	rule := strings.Repeat(" | --:", len(g.head)-1)
	if g.lastWords {
		rule = strings.TrimSuffix(rule, "--:") + "---"
	}
	text.WriteString("| ---" + rule + " |\n")
	for _, row := range g.rows {
		line(row)
	}
	return text.String()
}

// without drops the columns, except the first, that are empty in all rows.
func (g grid) without() grid {
	kept := grid{rows: make([][]string, len(g.rows))}
	for c, name := range g.head {
		if c > 0 && !slices.ContainsFunc(g.rows, func(row []string) bool { return row[c] != missing }) {
			continue
		}
		kept.head = append(kept.head, name)
		for r, row := range g.rows {
			kept.rows[r] = append(kept.rows[r], row[c])
		}
	}
	return kept
}
