// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/test/perf/result"
)

// folder has results of a workload at two sizes.
func folder(t *testing.T) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	f := result.File{Workloads: []result.Workload{
		workload("static, 1 claim", 100, map[result.Arm]float64{result.Stock: 5, result.Direct: 100, result.Ceiling: 180}),
		workload("static, 1 claim", 500, map[result.Arm]float64{result.Stock: 0.4, result.Direct: 90, result.Ceiling: 180}),
		workload("static, 4 claims", 100, map[result.Arm]float64{result.Direct: 40}),
		workload("static, 4 claims", 500, map[result.Arm]float64{result.Direct: 35}),
		workload("dynamic", 100, map[result.Arm]float64{result.PVController: 10}),
		workload("dynamic", 500, map[result.Arm]float64{result.PVController: 10}),
	}}
	for i := range f.Workloads {
		f.Workloads[i].Name = f.Workloads[i].Group
		for j := range f.Workloads[i].Runs {
			f.Workloads[i].Runs[j].P50, f.Workloads[i].Runs[j].SchedulerCPU = 0.5, 0.1
		}
	}
	if err := f.Store(filepath.Join(dir, "benchmarks.json")); err != nil {
		t.Fatal(err)
	}
	return dir, []string{
		"-results", filepath.Join(dir, "benchmarks.json"), "-loadmodel", filepath.Join(dir, "loadmodel.json"),
		"-page", filepath.Join(dir, "benchmarks.md"),
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const model = `{"points": [{"nodes": 1000, "filterNanos": 300, "podNanos": 90000}, {"nodes": 65000, "filterNanos": 350, "podNanos": 120000}]}`

func TestDrawsAllAndShowsThemOnThePage(t *testing.T) {
	t.Parallel()
	dir, args := folder(t)
	write(t, filepath.Join(dir, "loadmodel.json"), model)
	if err := run(args, io.Discard); err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join(dir, "benchmarks.md"))
	for name, texts := range map[string][]string{
		throughputFile: {"pods per second", "nodes", "static, 1 claim", "static, 4 claims", "dynamic", "stock", "stowage", "write ceiling", "500"},
		latencyFile:    {"latency p50, creation to binding", "500 ms"},
		cpuFile:        {"scheduler CPU time per pod", "10 ms"},
		engineFile:     {"time per call", "all calls of a pod", "Filter", "65,000"},
	} {
		svg := read(t, filepath.Join(dir, "benchmarks", name))
		shown := said(t, svg)
		for _, want := range texts {
			if !shown[want] {
				t.Errorf("%s does not say %q; it says %v", name, want, shown)
			}
		}
		if len(svg) > 40<<10 {
			t.Errorf("%s has %d bytes: too large to commit again and again", name, len(svg))
		}
		if !strings.Contains(page, "](benchmarks/"+name+")") {
			t.Errorf("the page does not show %s", name)
		}
	}
}

// said are the texts of a drawing, which must be well-formed.
func said(t *testing.T, svg string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			all[string(text)] = true
		}
	}
}

// TestDrawnAgainIsTheSame: so that drawing again commits nothing.
func TestDrawnAgainIsTheSame(t *testing.T) {
	t.Parallel()
	dir, args := folder(t)
	write(t, filepath.Join(dir, "loadmodel.json"), model)
	var before map[string]string
	for range 2 {
		if err := run(args, io.Discard); err != nil {
			t.Fatal(err)
		}
		made := map[string]string{"page": read(t, filepath.Join(dir, "benchmarks.md"))}
		for _, name := range []string{throughputFile, latencyFile, cpuFile, engineFile} {
			made[name] = read(t, filepath.Join(dir, "benchmarks", name))
		}
		for name, text := range before {
			if made[name] != text {
				t.Errorf("%s is different when it is made again", name)
			}
		}
		before = made
	}
}

func TestWithoutResults(t *testing.T) {
	t.Parallel()
	dir, args := folder(t)
	if err := os.Remove(filepath.Join(dir, "benchmarks.json")); err != nil {
		t.Fatal(err)
	}
	if err := run(args, io.Discard); err == nil || !strings.Contains(err.Error(), "run make bench first") {
		t.Errorf("error %v does not say what to do", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "benchmarks.md")); err == nil {
		t.Error("a page was written of nothing")
	}
}

func TestWithoutLoadModel(t *testing.T) {
	t.Parallel()
	dir, args := folder(t)
	var told bytes.Buffer
	if err := run(args, &told); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told.String(), "go run ./test/perf/loadmodel -out "+filepath.Join(dir, "loadmodel.json")) {
		t.Errorf("it was not told how to get the figures of the load model:\n%s", told.String())
	}
	if strings.Contains(read(t, filepath.Join(dir, "benchmarks.md")), engineFile) {
		t.Error("the page shows a drawing that was not made")
	}
}

func TestBrokenLoadModel(t *testing.T) {
	t.Parallel()
	dir, args := folder(t)
	path := filepath.Join(dir, "loadmodel.json")
	write(t, path, `{"points": 1}`)
	if err := run(args, io.Discard); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name %s", err, path)
	}
}

// TestOneSizeIsNotDrawn: of results without any growth there is a page only.
func TestOneSizeIsNotDrawn(t *testing.T) {
	t.Parallel()
	dir, args := folder(t)
	f := result.File{Workloads: []result.Workload{workload("single", 50, map[result.Arm]float64{result.Direct: 30})}}
	if err := f.Store(filepath.Join(dir, "benchmarks.json")); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	if err := run(args, &told); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(told.String(), "is not drawn: nothing was measured at two numbers of nodes"); got != 3 {
		t.Errorf("told of %d drawings, want 3:\n%s", got, told.String())
	}
	if strings.Contains(read(t, filepath.Join(dir, "benchmarks.md")), ".svg") {
		t.Error("the page shows a drawing that was not made")
	}
}
