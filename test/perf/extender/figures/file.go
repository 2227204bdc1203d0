// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package figures holds what was measured of the extender: what is stored in
// docs/extender-benchmarks.json, and the page that is made of it. It measures nothing.
package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stowage.dev/stowage/test/perf/result"
)

// File is all that is stored. Each part was measured at a time of its own; nil parts
// were not.
type File struct {
	Filter    *Filter    `json:"filter,omitempty"`
	Workloads []Workload `json:"workloads,omitempty"`
}

// Circumstances are where figures come from, and how busy the machine was.
type Circumstances struct {
	Source result.Source `json:"source"`
	// Load is the machine's load average over the minute before, in tasks.
	Load float64 `json:"load"`
}

// Filter are calls to filter with the names of all nodes.
type Filter struct {
	Circumstances
	Nodes   int      `json:"nodes"`
	Volumes int      `json:"volumes"`
	Series  []Series `json:"series"`
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
	// Load is as in Circumstances.
	Load float64 `json:"load"`
}

// Quantile is the smallest time that so many are not above, from 0 to 1; 0 of none.
func Quantile(times []float64, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
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
func Load(path string) (File, error) {
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

// Store writes the file, and its page beside it.
func (f *File) Store(path string) error {
	data, err := json.Marshal(f) // thousands of times, not for readers
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(path, filepath.Ext(path))+".md", []byte(f.Page()), 0o644)
}
