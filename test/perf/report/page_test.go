// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWriteShowsTheDrawingsThatExist: every link has a target, and other files
// are not shown.
func TestWriteShowsTheDrawingsThatExist(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct {
		there []string
		want  string
	}{
		"nothing is drawn yet":         {nil, Markdown(sample())},
		"in their own order":           {[]string{"cpu.svg", "throughput.svg"}, Markdown(sample(), "benchmarks/throughput.svg", "benchmarks/cpu.svg")},
		"others are not for this page": {[]string{"latency.svg", "notes.txt"}, Markdown(sample(), "benchmarks/latency.svg")},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			page := filepath.Join(t.TempDir(), "benchmarks.md")
			if err := os.Mkdir(Folder(page), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range test.there {
				if err := os.WriteFile(filepath.Join(Folder(page), name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := Write(page, sample()); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}
