// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
)

// extent is what an axis shows, from least to most, both above 0.
type extent struct{ least, most float64 }

// extents are those of all points of a chart, with room around them, so that
// its panels can be compared.
func (c chart) extents() (x, y extent) {
	x = extent{math.Inf(1), 0}
	y = x
	for _, at := range c.points() {
		x.add(at.x)
		y.add(at.y)
	}
	return x.wider(1.2), y.wider(1.5)
}

func (e *extent) add(v float64) {
	e.least, e.most = min(e.least, v), max(e.most, v)
}

func (e extent) wider(by float64) extent { return extent{e.least / by, e.most * by} }

// decades is how many powers of ten an extent covers.
func (e extent) decades() float64 { return math.Log10(e.most / e.least) }

func (c chart) points() []point {
	var all []point
	for _, p := range c.panels {
		for _, line := range p.curves {
			all = append(all, line.points...)
		}
	}
	return all
}

// crowded is how many decades of an axis can have three labels each.
const crowded = 2.5

// ticks of a logarithmic axis: at powers of ten, and at 2 and 5 times those,
// which are named only where there is room.
func (e extent) ticks(unit func(float64) string) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for power := int(math.Floor(math.Log10(e.least))); math.Pow10(power) <= e.most; power++ {
		for _, factor := range []float64{1, 2, 5} {
			v := factor * math.Pow10(power)
			if v < e.least || v > e.most {
				continue
			}
			label := ""
			if factor == 1 || e.decades() <= crowded {
				label = unit(v)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// nodeTicks of a logarithmic axis: where there are points, named where the name
// does not run into the one before.
func (c chart) nodeTicks(x extent) plot.ConstantTicks {
	var nodes []float64
	for _, at := range c.points() {
		nodes = append(nodes, at.x)
	}
	slices.Sort(nodes)
	var ticks plot.ConstantTicks
	named := 0.0
	for _, v := range slices.Compact(nodes) {
		label := ""
		if named == 0 || math.Log10(v/named) > 0.12*x.decades() {
			label, named = number(v), v
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}
