// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"

	"stowage.dev/stowage/test/perf/result"
)

// Outcome is the result of a comparison with a minimum.
type Outcome string

// The outcomes.
const (
	Met         Outcome = "met"
	Missed      Outcome = "missed"
	NotMeasured Outcome = "not measured"
)

// enoughRounds is how many rounds a median should be of.
const enoughRounds = 3

// Floor is a minimum of a figure, and the measured value.
type Floor struct {
	// Name has figure and workload: "throughput, static-500:
	// stowage / stock".
	Name string
	// Want is the bound for readers: "≥ 150×".
	Want string
	// Value is the figure, 0 when it was not measured.
	Value float64
	// Figure is Value for readers.
	Figure string
	// Rounds is how many rounds the figure is the median of.
	Rounds  int
	Outcome Outcome
	// Note is a further remark on the outcome; may be empty.
	Note string
}

// Floors compares results with all minimums, in the order in which they are
// shown. One whose workload or arm is missing is not measured. One that ours
// reaches only because some of its pods never were done is missed.
func Floors(f result.File) []Floor {
	var floors []Floor
	for _, r := range rules() {
		floors = append(floors, r.hold(&f))
	}
	return floors
}

// rule is the bound of a figure. Exactly one of least and most is
// set, or none: then the most is 0.
type rule struct {
	name        string
	want        string // the bound for readers
	least, most float64
	show        func(float64) string
	measure     func(*result.File) measure
}

// measure is a figure with the conditions under which it counts.
type measure struct {
	value  float64
	rounds int  // 0: not measured
	cut    bool // ours was stopped early; the one compared with may be
}

// rules lists all minimums.
func rules() []rule {
	return []rule{
		{
			name: "throughput, static-500: stowage / stock", want: "≥ 150×", least: 150, show: ratioDigits,
			measure: ratioOf("static-500", result.Direct, result.Stock, result.Run.Throughput),
		}, {
			name: "throughput, static-500: stowage / write ceiling", want: "≥ 0.6×", least: 0.6, show: ratioDigits,
			measure: ratioOf("static-500", result.Direct, result.Ceiling, result.Run.Throughput),
		}, {
			name: "throughput / write ceiling: static-5000 / static-500", want: "≥ 0.7×", least: 0.7, show: ratioDigits,
			measure: quotient(
				ratioOf("static-5000", result.Direct, result.Ceiling, result.Run.Throughput),
				ratioOf("static-500", result.Direct, result.Ceiling, result.Run.Throughput)),
		}, {
			name: "latency p50, single: stock / stowage", want: "≥ 20×", least: 20, show: ratioDigits,
			measure: ratioOf("single", result.Stock, result.Direct, p50),
		}, {
			name: "scheduler CPU per pod, static-500: stock / stowage", want: "≥ 300×", least: 300, show: ratioDigits,
			measure: ratioOf("static-500", result.Stock, result.Direct, result.Run.CPUPerPod),
		}, {
			name: "bound claims per second, modes: stowage / stowage, PVController", want: "≥ 10×", least: 10, show: ratioDigits,
			measure: ratioOf("modes", result.Direct, result.PVController, result.Run.Throughput),
		}, {
			name: "peak memory, memory-5000: stowage / stock", want: "≤ 1.3×", most: 1.3, show: ratioDigits,
			measure: ratioOf("memory-5000", result.Direct, result.Stock, peakMemory),
		}, {
			name: "writes per pod, static-500: stowage / stock", want: "≤ 1×", most: 1, show: ratioDigits,
			measure: ratioOf("static-500", result.Direct, result.Stock, result.Run.WritesPerPod),
		}, {
			name: "409s, static-500: stowage, of its writes", want: "≤ 5 %", most: 0.05, show: percent,
			measure: conflictShare("static-500", result.Direct),
		}, {
			name: "volumes given twice by stowage, all workloads", want: "0", show: func(v float64) string { return count(int(v)) },
			measure: givenTwice(result.Direct, result.PVController),
		},
	}
}

func ratioDigits(v float64) string { return digits(v) + "×" }

// hold measures the figure of a rule and judges it.
func (r rule) hold(f *result.File) Floor {
	floor := Floor{Name: r.name, Want: r.want, Figure: missing, Outcome: NotMeasured}
	m := r.measure(f)
	if m.rounds == 0 {
		return floor
	}
	floor.Value, floor.Figure, floor.Rounds = m.value, r.show(m.value), m.rounds
	short := r.short(m.value)
	switch {
	case m.cut:
		floor.Outcome, floor.Note = Missed, "stowage did not get all pods done"
	case short > 0:
		floor.Outcome, floor.Note = Missed, r.byHowMuch(short)
	case m.rounds < enoughRounds:
		floor.Outcome, floor.Note = Met, "but in fewer than "+count(enoughRounds)+" rounds"
	default:
		floor.Outcome = Met
	}
	return floor
}

// short is by which part of the bound a figure misses it; 0 when it does not.
func (r rule) short(v float64) float64 {
	switch {
	case r.least > 0:
		return max(0, 1-v/r.least)
	case r.most > 0:
		return max(0, v/r.most-1)
	}
	return max(0, v)
}

// byHowMuch formats the difference.
func (r rule) byHowMuch(short float64) string {
	switch {
	case r.least > 0:
		return percent(short) + " too little"
	case r.most > 0:
		return percent(short) + " too much"
	}
	return "a fault"
}

// ratioOf is the median of a workload's ratios, round by round.
func ratioOf(workload string, a, b result.Arm, figure func(result.Run) float64) func(*result.File) measure {
	return func(f *result.File) measure {
		w := f.Find(workload)
		if w == nil {
			return measure{}
		}
		m := measure{value: w.Ratio(a, b, figure), cut: cut(w.Of(result.Direct))}
		if m.value == 0 && !m.cut {
			return measure{}
		}
		for _, x := range w.Of(a) {
			if slices.ContainsFunc(w.Of(b), func(y result.Run) bool { return y.Round == x.Round }) {
				m.rounds++
			}
		}
		return m
	}
}

// quotient divides one measured figure by another.
func quotient(a, b func(*result.File) measure) func(*result.File) measure {
	return func(f *result.File) measure {
		x, y := a(f), b(f)
		if x.rounds == 0 || y.rounds == 0 {
			return measure{}
		}
		m := measure{rounds: min(x.rounds, y.rounds), cut: x.cut || y.cut}
		if y.value > 0 {
			m.value = x.value / y.value
		}
		return m
	}
}

// conflictShare is an arm's refused writes as a part of the successful ones.
func conflictShare(workload string, arm result.Arm) func(*result.File) measure {
	return func(f *result.File) measure {
		w := f.Find(workload)
		if w == nil || w.Median(arm, result.Run.WritesPerPod) == 0 {
			return measure{}
		}
		runs := w.Of(arm)
		return measure{value: w.Median(arm, result.Run.ConflictShare), rounds: len(runs), cut: cut(runs)}
	}
}

// givenTwice counts the volumes that the arms bound twice in all workloads. Its rounds are
// the fewest of a workload. Pods that were not done bound none: an arm that
// was stopped early still counts.
func givenTwice(arms ...result.Arm) func(*result.File) measure {
	return func(f *result.File) measure {
		m := measure{rounds: math.MaxInt}
		for i := range f.Workloads {
			for _, arm := range arms {
				if runs := f.Workloads[i].Of(arm); len(runs) > 0 {
					m.rounds = min(m.rounds, len(runs))
					m.value += float64(sum(runs, func(r result.Run) int { return r.GivenTwice }))
				}
			}
		}
		if m.rounds == math.MaxInt {
			return measure{}
		}
		return m
	}
}

// floorTable shows all minimums, and marks those that are missed.
func floorTable(f result.File) string {
	g := grid{head: []string{"figure", "wanted", "measured", "rounds", "outcome"}, lastWords: true}
	outcomes := map[Outcome]int{}
	for _, floor := range Floors(f) {
		outcomes[floor.Outcome]++
		outcome, rounds := string(floor.Outcome), missing
		if floor.Outcome == Missed {
			outcome = "**" + outcome + "**"
		}
		if floor.Note != "" {
			outcome += ", " + floor.Note
		}
		if floor.Rounds > 0 {
			rounds = count(floor.Rounds)
		}
		g.rows = append(g.rows, []string{floor.Name, floor.Want, floor.Figure, rounds, outcome})
	}
	return fmt.Sprintf("%s%s\n%s", floorsExplained, verdict(outcomes), g.markdown())
}

// verdict sums up the results in a sentence.
func verdict(outcomes map[Outcome]int) string {
	judged := outcomes[Met] + outcomes[Missed]
	if judged == 0 {
		return "None is measured yet.\n"
	}
	text := fmt.Sprintf("**%d of %s met.**", outcomes[Met], plural(judged, "measured floor"))
	if missed := outcomes[Missed]; missed > 0 {
		text = fmt.Sprintf("**%d of %s missed.**", missed, plural(judged, "measured floor"))
	}
	if unmeasured := outcomes[NotMeasured]; unmeasured > 0 {
		text += fmt.Sprintf(" %d not measured yet.", unmeasured)
	}
	return text + "\n"
}
