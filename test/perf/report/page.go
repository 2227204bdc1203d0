// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"strings"

	"stowage.dev/stowage/test/perf/result"
)

// Write writes the page of all results, docs/benchmarks.md say, with the
// drawings that are in its Folder.
func Write(page string, f result.File) error {
	var figures []string
	for _, d := range drawings() {
		if _, err := os.Stat(filepath.Join(Folder(page), d.file)); err == nil {
			figures = append(figures, filepath.Base(Folder(page))+"/"+d.file)
		}
	}
	return os.WriteFile(page, []byte(Markdown(f, figures...)), 0o644)
}

// Folder is where the drawings of a page are: docs/benchmarks for
// docs/benchmarks.md.
func Folder(page string) string {
	return strings.TrimSuffix(page, filepath.Ext(page))
}
