// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package figures has the format of the extender's stored measurements,
// docs/extender-benchmarks.json, and makes the page. It measures nothing.
package figures

import (
	"encoding/json"
	"slices"

	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/result"
)

// File is the stored data. The parts are measured at different times; nil parts
// were not measured.
type File struct {
	Filter    *Filter    `json:"filter,omitempty"`
	Workloads []Workload `json:"workloads,omitempty"`
}

// Filter are calls to filter with the names of all nodes.
type Filter struct {
	page.Circumstances
	Nodes   int      `json:"nodes"`
	Volumes int      `json:"volumes"`
	Series  []Series `json:"series"`
	// Memory is the extender's largest resident set, start-up included, in bytes.
	Memory int64 `json:"memory"`
}

// Series is one call after the other, in milliseconds.
type Series struct {
	Name   string    `json:"name"`
	Millis []float64 `json:"millis"`
	// Whole are the same calls with the caller's encoding and decoding.
	Whole []float64 `json:"whole"`
}

// Workload is a load on whole clusters.
type Workload struct {
	result.Workload
	// Load is as in page.Circumstances.
	Load float64 `json:"load"`
}

// Put replaces the workload of the same name, or adds it at the end.
func (f *File) Put(w Workload) {
	i := slices.IndexFunc(f.Workloads, func(old Workload) bool { return old.Name == w.Name })
	if i < 0 {
		f.Workloads = append(f.Workloads, w)
		return
	}
	f.Workloads[i] = w
}

// Load reads a stored file; one that does not exist is empty.
func Load(path string) (File, error) { return page.Load[File](path) }

// Store writes the file, and its page beside it.
func (f *File) Store(path string) error {
	data, err := json.Marshal(f) // thousands of times, not for readers
	if err != nil {
		return err
	}
	return page.Store(path, data, f.Page())
}

// Render writes the page of a stored file.
func Render(path string) error {
	f, err := Load(path)
	if err != nil {
		return err
	}
	return f.Store(path)
}
