// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package figures has the format of the provisioner's stored measurements,
// docs/local-benchmarks.json, and makes the page. It measures nothing.
package figures

import (
	"encoding/json"

	"stowage.dev/stowage/test/perf/page"
)

// File is the stored data. The parts are measured at different times; nil parts
// were not measured.
type File struct {
	Appearing *Latencies `json:"appearing,omitempty"`
	Releasing *Latencies `json:"releasing,omitempty"`
	Resting   *Resting   `json:"resting,omitempty"`
	Wiping    *Wiping    `json:"wiping,omitempty"`
	Watching  *Watching  `json:"watching,omitempty"`
}

// Latencies are times of one thing, in one series for each kind of disk.
type Latencies struct {
	page.Circumstances
	Series []Series `json:"series"`
}

// Series is one time after the other, in milliseconds.
type Series struct {
	Name string `json:"name"`
	// Bare is whether no provisioner took part: a client sent the minimum of requests.
	Bare   bool      `json:"bare,omitempty"`
	Millis []float64 `json:"millis"`
}

func (s *Series) quantile(q float64) float64 { return page.Quantile(s.Millis, q) }

// Resting is an agent with nothing to do.
type Resting struct {
	page.Circumstances
	Volumes int `json:"volumes"`
	// StartSeconds are from the agent's start until all volumes were Available.
	StartSeconds float64 `json:"startSeconds"`
	// RSS at rest, and the largest from the start on, in bytes.
	RSS     int64 `json:"rss"`
	PeakRSS int64 `json:"peakRSS"`
	// Seconds that were measured, the agent's CPU seconds in them, and the scans.
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
	Scans   int     `json:"scans"`
	// ScanSeconds is the mean time of a scan.
	ScanSeconds float64 `json:"scanSeconds"`
	// ResyncSeconds is minResyncPeriod.
	ResyncSeconds float64 `json:"resyncSeconds"`
	// Devices are those below the volumes, IO their reads, writes, discards and flushes
	// in that time.
	Devices int   `json:"devices"`
	IO      int64 `json:"io"`
}

// Wiping is cleaning a large device, by several methods.
type Wiping struct {
	page.Circumstances
	Bytes int64  `json:"bytes"`
	Runs  []Wipe `json:"runs"`
}

// Wipe is one clean, by an agent that did nothing else.
type Wipe struct {
	Command string `json:"command"`
	// Seconds from Released to Available again.
	Seconds float64 `json:"seconds"`
	// PeakRSS is the agent's largest resident set, PeakGroup the most memory that its
	// cgroup was charged for, both in bytes and from its start on. PeakGroup is 0 where
	// cgroups could not be used.
	PeakRSS   int64 `json:"peakRSS"`
	PeakGroup int64 `json:"peakGroup"`
	// Anchor is another program that writes the same to the same device, and its
	// duration just before; empty without one.
	Anchor        string  `json:"anchor,omitempty"`
	AnchorSeconds float64 `json:"anchorSeconds,omitempty"`
}

// Watching is what agents cost the API server.
type Watching struct {
	page.Circumstances
	Volumes int     `json:"volumes"`
	Nodes   int     `json:"nodes"`
	Updates int     `json:"updates"`
	Runs    []Watch `json:"runs"`
}

// Arm is a kind of watcher.
type Arm string

// The arms, in the order in which they are shown.
const (
	Nobody   Arm = "nobody"
	Filtered Arm = "filtered"
	All      Arm = "all"
)

// Watch is one arm in one round, on an API server that was started for it.
type Watch struct {
	Arm      Arm   `json:"arm"`
	Round    int   `json:"round"`
	Watchers int   `json:"watchers"`
	Begin    Phase `json:"begin"`  // until all watchers have seen what there is
	Update   Phase `json:"update"` // while volumes are updated, until all have seen it
	// RSS of the API server when the watchers had begun, in bytes.
	RSS int64 `json:"rss"`
}

// Phase is the API server's work in some time.
type Phase struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`    // of the API server, seconds
	Bytes   int64   `json:"bytes"`  // sent to the watchers, encrypted
	Events  int64   `json:"events"` // that they got
}

// Load reads a stored file; one that does not exist is empty.
func Load(path string) (File, error) { return page.Load[File](path) }

// Store writes the file, and its page beside it.
func (f *File) Store(path string) error {
	data, err := json.MarshalIndent(f, "", "  ")
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
