// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page writes the tables of docs/benchmarks.md from the results in docs/benchmarks.
// The text around them is written by hand: a table is between the comments <!-- NAME --> and
// <!-- /NAME -->. It measures nothing.
package page

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stowage.dev/stowage/test/perf/figures"
)

// Results is the folder of the results, Path the page, both from the top of the repository.
const (
	Results = "docs/benchmarks"
	Path    = "docs/benchmarks.md"
)

// Write writes the tables of the page at root, the top of the repository.
func Write(root string) error {
	path := filepath.Join(root, Path)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := Fill(root, string(page))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// Fill is the page with the tables of the stored results.
func Fill(root, page string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, Results, "*.txt"))
	if err != nil {
		return "", err
	}
	set, err := figures.Load(files...)
	if err != nil {
		return "", err
	}
	for _, t := range tables {
		if page, err = between(page, t.name, t.write(set)); err != nil {
			return "", err
		}
	}
	return page, nil
}

// between replaces what is between the comments of a table.
func between(page, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("%s has no table between %q and %q", Path, strings.TrimSpace(begin), end)
	}
	return before + begin + text + end + after, nil
}

// Table is a table in Markdown. The first words columns have names, the others figures.
func Table(words int, head []string, rows [][]string) string {
	rules := slices.Concat(slices.Repeat([]string{"---"}, words), slices.Repeat([]string{"--:"}, len(head)-words))
	var text strings.Builder
	for _, row := range slices.Concat([][]string{head, rules}, rows) {
		for _, cell := range row {
			text.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		text.WriteString("|\n")
	}
	return text.String()
}
