// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// modelPoint is what the load model measured at one number of nodes: the parts
// of it that are drawn.
type modelPoint struct {
	Nodes     int     `json:"nodes"`
	PreFilter float64 `json:"prefilterNanos"` // per call, in nanoseconds, as are the next three
	Filter    float64 `json:"filterNanos"`
	Score     float64 `json:"scoreNanos"`
	Reserve   float64 `json:"reserveNanos"`
	Pod       float64 `json:"podNanos"` // all calls for one pod
}

// loadModel reads the points of the load model by their number of nodes. The
// error is fs.ErrNotExist when there is no such file.
func loadModel(path string) ([]modelPoint, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Points []modelPoint `json:"points"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	slices.SortStableFunc(file.Points, func(a, b modelPoint) int { return a.Nodes - b.Nodes })
	return file.Points, nil
}

// engineChart draws the time of each call over the number of nodes.
func engineChart(points []modelPoint) chart {
	c := chart{file: engineFile, xLabel: "nodes", yLabel: "time per call", unit: seconds}
	if len(points) < 2 || points[0].Nodes <= 0 || points[0].Nodes == points[len(points)-1].Nodes {
		return c
	}
	var p panel
	for i, call := range []struct {
		name  string
		nanos func(modelPoint) float64
	}{
		{"all calls of a pod", func(p modelPoint) float64 { return p.Pod }},
		{"PreFilter", func(p modelPoint) float64 { return p.PreFilter }},
		{"Filter", func(p modelPoint) float64 { return p.Filter }},
		{"Score", func(p modelPoint) float64 { return p.Score }},
		{"Reserve", func(p modelPoint) float64 { return p.Reserve }},
	} {
		line := curve{name: call.name, style: styleNumber(i)}
		for _, at := range points {
			if nanos := call.nanos(at); nanos > 0 {
				line.points = append(line.points, point{x: float64(at.Nodes), y: nanos * 1e-9})
			}
		}
		if len(line.points) > 0 {
			p.curves = append(p.curves, line)
		}
	}
	if len(p.curves) > 0 {
		c.panels = []panel{p}
	}
	return c
}
