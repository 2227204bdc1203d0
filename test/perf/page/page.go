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
	return StorePage(path, text)
}

// StorePage writes the page beside stored figures.
func StorePage(path, text string) error {
	return os.WriteFile(strings.TrimSuffix(path, filepath.Ext(path))+".md", []byte(text), 0o644)
}

// Table is one whose first column has names and whose others have figures. Columns are
// separated by " | ".
func Table(columns string, rows [][]string) string {
	names := strings.Split(columns, " | ")
	return Aligned(names, append([]string{"---"}, slices.Repeat([]string{"--:"}, len(names)-1)...), rows)
}

// Aligned is a table whose columns are aligned by Markdown's rules, such as "--:".
func Aligned(columns, rules []string, rows [][]string) string {
	var b strings.Builder
	for _, row := range append([][]string{columns, rules}, rows...) {
		for _, cell := range row {
			b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
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
	return Grouped(strconv.FormatInt(int64(n), 10))
}

// Grouped puts a comma before every third digit from the point to the left.
func Grouped(decimal string) string {
	whole, rest, _ := strings.Cut(decimal, ".")
	if rest != "" {
		rest = "." + rest
	}
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + rest
}

// Millis is a time in milliseconds with this number of decimals, one more below 10 ms, or in
// seconds from 1000 ms on.
func Millis(millis float64, decimals int) string {
	switch {
	case millis < 10:
		return fmt.Sprintf("%.*f ms", decimals+1, millis)
	case millis >= 1000:
		return fmt.Sprintf("%.2f s", millis/1000)
	default:
		return fmt.Sprintf("%.*f ms", decimals, millis)
	}
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
