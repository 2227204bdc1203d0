// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report formats the results of benchmarks on whole clusters: as a page
// for readers, and as a table for terminals. Only Write does I/O: the rest reads
// no file and no clock, so that the same results always make the same page.
//
//	report.go   the page
//	text.go     the page's text on the method
//	glance.go   its first table: ours against stock
//	floors.go   the lower and upper bounds of figures
//	arms.go     the table of a workload
//	sources.go  machines, versions, commands
//	format.go   numbers and units
package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/result"
)

// Markdown is the page of all results. Figures are the drawings to show on it,
// as paths relative to the page with slashes: "benchmarks/throughput.svg".
func Markdown(f result.File, figures ...string) string {
	var out strings.Builder
	out.WriteString(head)
	if len(f.Workloads) == 0 {
		out.WriteString("\nNothing has been measured yet.\n")
		return out.String()
	}
	section(&out, "At a glance", glance(f))
	section(&out, "Floors", floorTable(f))
	section(&out, "How it is measured", method)
	if len(figures) > 0 {
		section(&out, "Growth", growth(figures))
	}
	section(&out, "Workloads", workloads(f))
	section(&out, "Sources", sources(f))
	return out.String()
}

func section(out *strings.Builder, title, text string) {
	fmt.Fprintf(out, "\n## %s\n\n%s", title, text)
}

// Write writes the page of all results, docs/benchmarks.md say, with the
// drawings that are in its Folder.
func Write(path string, f result.File) error {
	var figures []string
	for _, d := range drawings() {
		if _, err := os.Stat(filepath.Join(Folder(path), d.file)); err == nil {
			figures = append(figures, filepath.Base(Folder(path))+"/"+d.file)
		}
	}
	return os.WriteFile(path, []byte(Markdown(f, figures...)), 0o644)
}

// Folder is where the drawings of a page are: docs/benchmarks for
// docs/benchmarks.md.
func Folder(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path))
}

// workloads is a section for each workload.
func workloads(f result.File) string {
	var text strings.Builder
	text.WriteString(columnsExplained)
	for i := range f.Workloads {
		w := &f.Workloads[i]
		fmt.Fprintf(&text, "\n### %s\n\n%s\n\n%s", w.Name, sentence(w), armTable(w).markdown())
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

// markdown writes a table, words left-aligned and figures right-aligned.
func (g grid) markdown() string {
	rules := append([]string{"---"}, slices.Repeat([]string{"--:"}, len(g.head)-1)...)
	if g.lastWords {
		rules[len(rules)-1] = "---"
	}
	return page.Aligned(g.head, rules, g.rows)
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
