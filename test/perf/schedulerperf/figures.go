// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"stowage.dev/stowage/test/perf/result"
)

// floorRatio is what Stowage must reach of the stock scheduler's throughput on
// upstream's workloads, unless the intervals of both overlap.
const floorRatio = 0.95

// minRounds is how many rounds make a verdict.
const minRounds = 3

// figures are the results of one run of one workload.
type figures struct {
	Arm   result.Arm `json:"arm"`
	Round int        `json:"round"` // from 1
	podTimes
	// Reported is scheduler_perf's own mean throughput in pods per second, over
	// the whole seconds but the first; 0 if there were none.
	Reported float64 `json:"reported"`
	// Attempt is the scheduler's mean time, in seconds, of an attempt that
	// placed a pod, until it was bound.
	Attempt float64 `json:"attempt"`
	// Plugin is the mean time, in seconds, of a call of the arm's volume plugin,
	// by extension point, of the calls that the scheduler samples (one pod in
	// ten). It separates the plugin's cost from the machine's noise.
	Plugin map[string]float64 `json:"plugin,omitempty"`
}

// Throughput is pods per second, from the first one seen to the last one bound.
func (f figures) Throughput() float64 {
	if f.Seconds == 0 {
		return 0
	}
	return float64(f.Bound) / f.Seconds
}

// measured is a workload with all its runs.
type measured struct {
	Name  string `json:"name"`
	Topic string `json:"topic"`
	Nodes int    `json:"nodes"`
	// Floor: whether Stowage must reach the lower bound on it.
	Floor bool      `json:"floor"`
	Runs  []figures `json:"runs"`
}

// of lists a figure of an arm's runs, smallest first.
func (m measured) of(arm result.Arm, figure func(figures) float64) []float64 {
	var values []float64
	for _, run := range m.Runs {
		if run.Arm == arm {
			values = append(values, figure(run))
		}
	}
	slices.Sort(values)
	return values
}

// ratio is the median over the rounds of ours to stock's throughput; 0 if stock
// did not run. Rounds are compared individually because the speed of machines
// changes.
func (m measured) ratio() float64 {
	stock := map[int]float64{}
	for _, run := range m.Runs {
		if run.Arm == result.Stock {
			stock[run.Round] = run.Throughput()
		}
	}
	var ratios []float64
	for _, run := range m.Runs {
		if run.Arm == result.Direct && stock[run.Round] > 0 {
			ratios = append(ratios, run.Throughput()/stock[run.Round])
		}
	}
	return result.Median(ratios)
}

// verdict on the lower bound.
type verdict string

const (
	notJudged verdict = ""
	tooFew    verdict = "too few rounds"
	kept      verdict = "yes"
	overlaps  verdict = "intervals overlap"
	missed    verdict = "no"
)

// verdict compares Stowage with the lower bound. The interval of an arm is from its
// slowest to its fastest round: of 5 rounds, that contains the true median with a
// probability of 94 %.
func (m measured) verdict() verdict {
	ours, stock := m.of(result.Direct, figures.Throughput), m.of(result.Stock, figures.Throughput)
	switch {
	case !m.Floor:
		return notJudged
	case min(len(ours), len(stock)) < minRounds:
		return tooFew
	case m.ratio() >= floorRatio:
		return kept
	case ours[len(ours)-1] >= stock[0]:
		return overlaps
	}
	return missed
}
