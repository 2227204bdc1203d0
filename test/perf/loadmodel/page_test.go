// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/test/perf/loadmodel/model"
)

// TestPage: the page has a row for each size, and shows which limits are missed.
func TestPage(t *testing.T) {
	t.Parallel()
	r := &report{Pods: 100, Points: []*model.Point{
		{Nodes: 1000, Volumes: 10_000, FilterNanos: 100, ScoreNanos: 100, ReserveNanos: 1000, LookNanos: 10},
		{Nodes: 65_000, Volumes: 650_000, FilterNanos: 150, ScoreNanos: 151, ReserveNanos: 1000, LookNanos: 30},
	}}
	figures := filepath.Join(t.TempDir(), "loadmodel.json")
	if err := r.write(figures); err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(filepath.Dir(figures), "loadmodel.md")
	first, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 1000 | 10000 |", "| 65000 | 650000 |",
		"| Filter | ≤ 1.5× | 1.50× | met |", "| Score | ≤ 1.5× | 1.51× | **missed** |", "| look | – | 3.00× |  |",
	} {
		if !strings.Contains(string(first), want) {
			t.Errorf("the page does not say %q:\n%s", want, first)
		}
	}
	if err := os.Remove(written); err != nil {
		t.Fatal(err)
	}
	if err := render(figures); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(written); err != nil || !bytes.Equal(again, first) {
		t.Errorf("rendered again, the page is different (%v):\n%s", err, again)
	}
}

func TestRenderTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	spoilt := filepath.Join(t.TempDir(), "spoilt.json")
	if err := os.WriteFile(spoilt, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := render(spoilt); err == nil || !strings.Contains(err.Error(), spoilt) {
		t.Errorf("got %v, want an error that names %s", err, spoilt)
	}
}
