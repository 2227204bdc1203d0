// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package result has the results of benchmarks on whole clusters: the format of
// docs/benchmarks.json, and the medians and ratios that are shown. It measures nothing.
//
// A Workload is run by several arms in turn, round by round, each on a fresh
// cluster; a Run is one arm in one round. Figures are compared between arms of
// the same workload only.
package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Arm is a scheduler, or a client that sends the writes of scheduling.
type Arm string

// The arms, in the order in which they are shown.
const (
	// Stock is the stock profile: VolumeBinding.
	Stock Arm = "stock"
	// Direct is VolumeTopology with the default binding mode.
	Direct Arm = "stowage"
	// PVController is VolumeTopology with bindingMode PVController.
	PVController Arm = "stowage, PVController"
	// Ceiling is no scheduler: a bare client that does the same writes.
	Ceiling Arm = "write ceiling"
)

// The arms of docs/extender-benchmarks.md, in addition to Stock and Direct: the stock scheduler
// with the extender, by its mode.
const (
	ExtenderFull     Arm = "stock + extender, Full"
	ExtenderAdvisory Arm = "stock + extender, Advisory"
)

// Arms lists the arms of docs/benchmarks.md in the order in which they are shown.
var Arms = []Arm{Stock, Direct, PVController, Ceiling}

// File is the stored data.
type File struct {
	// Workloads in the order in which they are shown. Each was measured at a
	// different time.
	Workloads []Workload `json:"workloads"`
}

// Workload is one kind of load at one size, with all runs of it.
type Workload struct {
	// Name picks it: "static-500". Title is one line for readers.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Group holds workloads that differ in size only: "static, 1 claim". They
	// are drawn as one curve over Nodes.
	Group string `json:"group"`

	Nodes          int `json:"nodes"`
	VolumesPerNode int `json:"volumesPerNode"`
	ClaimsPerPod   int `json:"claimsPerPod"`

	// Where, when and by which command it was measured.
	Source Source `json:"source"`
	Runs   []Run  `json:"runs"`
}

// Source is where figures come from.
type Source struct {
	Time       time.Time `json:"time"`
	Command    string    `json:"command"`
	Version    string    `json:"version"`    // of Stowage
	Kubernetes string    `json:"kubernetes"` // of all components
	Go         string    `json:"go"`
	CPU        string    `json:"cpu"`
	CPUs       int       `json:"cpus"`
	Memory     int64     `json:"memory"` // bytes
	System     string    `json:"system"` // kernel
}

// Run is the result of one arm in one round.
type Run struct {
	Arm   Arm `json:"arm"`
	Round int `json:"round"` // from 1
	// Pods that were created, and how many of them were done (bound, or refused
	// where that is expected) in time. Fewer than Asked: the arm was stopped.
	Asked int `json:"asked"`
	Done  int `json:"done"`
	// Seconds from the first pod's creation to the last one done.
	Seconds float64 `json:"seconds"`
	// Latency of the pods that were done, from creation to binding, in seconds.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// CPU seconds, user and system, of the scheduler (0 in the
	// ceiling's arm, which has none) and of the PV controller, from the first pod's
	// creation to the last one done.
	SchedulerCPU    float64 `json:"schedulerCPU"`
	PVControllerCPU float64 `json:"pvControllerCPU"`
	// PeakMemory of the scheduler in bytes: its largest resident set, start-up
	// included. 0: not measured.
	PeakMemory int64 `json:"peakMemory,omitempty"`
	// Writes are the API requests of scheduler and PV controller, without
	// events, that changed an object (2xx), Conflicts those refused with 409.
	Writes    int `json:"writes"`
	Conflicts int `json:"conflicts"`
	// GivenTwice counts volumes that two claims name, or claims whose volume
	// names another. Anything but 0 is a fault.
	GivenTwice int `json:"givenTwice"`
	// FilterMean is the mean duration of the Filter extension point of volumes
	// per node in seconds, from the scheduler's own metrics; 0: not measured.
	FilterMean float64 `json:"filterMean,omitempty"`
	// ExtenderCPU are the extender's CPU seconds, and Binds its calls to bind by outcome
	// (bound, conflict, error), both from the first pod's creation to the last one done.
	ExtenderCPU float64        `json:"extenderCPU,omitempty"`
	Binds       map[string]int `json:"binds,omitempty"`
}

// Cut reports that the arm was stopped before all its pods were done.
func (r Run) Cut() bool { return r.Done < r.Asked }

// Throughput is pods done per second; 0 when none was.
func (r Run) Throughput() float64 { return ratio(float64(r.Done), r.Seconds) }

// CPUPerPod is the scheduler's CPU seconds per pod done.
func (r Run) CPUPerPod() float64 { return ratio(r.SchedulerCPU, float64(r.Done)) }

// WritesPerPod is API writes per pod done.
func (r Run) WritesPerPod() float64 { return ratio(float64(r.Writes), float64(r.Done)) }

// ConflictsPerPod is refused API writes per pod done.
func (r Run) ConflictsPerPod() float64 { return ratio(float64(r.Conflicts), float64(r.Done)) }

// ConflictShare is refused API writes per API write that succeeded.
func (r Run) ConflictShare() float64 { return ratio(float64(r.Conflicts), float64(r.Writes)) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Of lists the runs of an arm, by round.
func (w *Workload) Of(arm Arm) []Run {
	var runs []Run
	for _, r := range w.Runs {
		if r.Arm == arm {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return a.Round - b.Round })
	return runs
}

// Median is the median of a figure over an arm's runs; 0 when it has none. Of
// an even number of runs it is the mean of the middle two.
func (w *Workload) Median(arm Arm, figure func(Run) float64) float64 {
	var figures []float64
	for _, r := range w.Of(arm) {
		figures = append(figures, figure(r))
	}
	return Median(figures)
}

// Ratio is the median, over the rounds in which both arms ran, of a's figure
// divided by b's; 0 without such a round. Rounds are compared individually
// because the speed of machines changes.
func (w *Workload) Ratio(a, b Arm, figure func(Run) float64) float64 {
	var ratios []float64
	for _, x := range w.Of(a) {
		for _, y := range w.Of(b) {
			if x.Round == y.Round && figure(y) != 0 {
				ratios = append(ratios, figure(x)/figure(y))
			}
		}
	}
	return Median(ratios)
}

// Median of figures, which it sorts; 0 of none. Of an even number it is the mean of the middle two.
func Median(figures []float64) float64 {
	slices.Sort(figures)
	n := len(figures)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return figures[n/2]
	}
	return (figures[n/2-1] + figures[n/2]) / 2
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

// Store writes the file.
func (f File) Store(path string) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// Put replaces the workload of the same name, or adds it at the end.
func (f *File) Put(w Workload) {
	if old := f.Find(w.Name); old != nil {
		*old = w
		return
	}
	f.Workloads = append(f.Workloads, w)
}

// Find is the workload of that name; nil when it was not measured. It is the
// file's own, not a copy.
func (f *File) Find(name string) *Workload {
	for i := range f.Workloads {
		if f.Workloads[i].Name == name {
			return &f.Workloads[i]
		}
	}
	return nil
}
