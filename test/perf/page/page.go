// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page is what pages of figures have in common, whatever was measured: the file
// that figures are stored in with the page beside it, tables, and where figures come
// from. It measures nothing. The page of whole clusters, which is of another form, is
// made by package report.
package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Load reads a stored file of figures; one that does not exist is empty.
func Load[File any](path string) (File, error) {
	var f File
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("read %s: %w", path, err)
	}
	return f, nil
}

// Store writes figures, encoded, and their page beside them.
func Store(path string, figures []byte, text string) error {
	if err := os.WriteFile(path, append(figures, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(path, filepath.Ext(path))+".md", []byte(text), 0o644)
}

// Table is one whose first column has names and whose others have figures. Columns are
// separated by " | ".
func Table(columns string, rows [][]string) string {
	names := strings.Split(columns, " | ")
	var b strings.Builder
	b.WriteString("| " + strings.Join(names, " | ") + " |\n| ---" + strings.Repeat(" | --:", len(names)-1) + " |\n")
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String()
}

// Floor is a row of the table of Floors: what was measured against what is wanted.
func Floor(name, wanted, measured string, met bool) []string {
	outcome := "met"
	if !met {
		outcome = "**missed**"
	}
	return []string{name, wanted, measured, outcome}
}

// Floors is the table of floors.
func Floors(rows [][]string) string {
	return Table("figure | wanted | measured | outcome", rows)
}

// Count is a number of things, with commas: "1,000".
func Count[Number int | int64](n Number) string {
	text := strconv.FormatInt(int64(n), 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Quantile is the smallest time that at least this share, from 0 to 1, does not exceed; 0 of none.
func Quantile(times []float64, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
