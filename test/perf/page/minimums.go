// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"math"
	"slices"
	"strings"

	"stowage.dev/stowage/test/perf/figures"
)

// Outcome is the result of a comparison with a minimum or maximum.
type Outcome string

// The outcomes.
const (
	Met         Outcome = "met"
	Missed      Outcome = "**missed**"
	NotMeasured Outcome = "not measured"
)

// enoughRounds is how many rounds a median of whole clusters is of at least.
const enoughRounds = 3

// Minimum is a required figure, and what was measured.
type Minimum struct {
	Name, Want, Measured string
	Rounds               int
	Outcome              Outcome
	// Note qualifies the outcome; it may be empty.
	Note string
}

// rule is a bound of a figure.
type rule struct {
	name  string
	sign  string // "≥", "≤" or "<"
	bound float64
	unit  string
	// several rounds are wanted.
	several bool
	measured
}

// measured is a figure with the conditions under which it counts.
type measured struct {
	value  float64 // NaN: not measured
	rounds int
	cut    bool   // Stowage did not get all pods done
	excuse string // why the figure counts in any case
}

const keepUp = 0.95

// rules are all bounds.
func rules(s figures.Set) []rule {
	const mib, single, modes, memory = 1 << 20, "single", "modes", "memory-5000"
	clusters := []rule{
		{"pods/s, static-500: stowage / stock", "≥", 150, "x", true, ratio(s, "static-500", Stowage, Stock, "pods/s")},
		{"pods/s, static-500: stowage / write ceiling", "≥", 0.6, "x", true, ratio(s, "static-500", Stowage, ceiling, "pods/s")},
		{"pods/s / write ceiling: static-5000 / static-500", "≥", 0.7, "x", true, quotient(
			ratio(s, "static-5000", Stowage, ceiling, "pods/s"), ratio(s, "static-500", Stowage, ceiling, "pods/s"))},
		{"latency p50, single: stock / stowage", "≥", 20, "x", true, ratio(s, single, Stock, Stowage, "p50-sec")},
		{"CPU per pod, static-500: stock / stowage", "≥", 300, "x", true, ratio(s, "static-500", Stock, Stowage, "cpu-sec/pod")},
		{"pods/s, modes: stowage / stowage-PVController", "≥", 10, "x", true, ratio(s, modes, Stowage, "stowage-PVController", "pods/s")},
		{"peak memory, memory-5000: stowage / stock", "≤", 1.3, "x", true, ratio(s, memory, Stowage, Stock, "peak-B")},
		{"writes per pod, static-500: stowage / stock", "≤", 1, "x", true, ratio(s, "static-500", Stowage, Stock, "writes/pod")},
		{"409s, static-500: stowage, of its writes", "≤", 0.05, "share", true, conflictShare(s, "static-500")},
		{"volumes given twice, all workloads", "≤", 0, "", false, givenTwice(s)},
	}
	for _, own := range []string{inPlace, bindNow} {
		clusters = append(clusters,
			rule{"claims/s, 5,000 volumes: " + own + " / PV controller", "≥", 10, "x", true, claimRatio(s, own, pvController)},
			rule{"claims/s, 5,000 volumes: " + own + " / write ceiling", "≥", 0.8, "x", true, claimRatio(s, own, ceiling)})
	}
	all := slices.Concat(clusters,
		below(s, "Filter", "the extender's filter, p99: ", "p99-sec", 0.010),
		below(s, "Appear", "disk appears → Available, longest: ", "max-sec", 1),
		below(s, "Release", "Released → Available, longest: ", "max-sec", 2),
		[]rule{
			{"provisioner at rest: RSS", "<", 40 * mib, "limit-B", false, median(s, "Rest", "rss-B")},
			{"provisioner at rest: RSS, largest", "<", 40 * mib, "limit-B", false, median(s, "Rest", "peak-B")},
			{"provisioner at rest: requests of devices", "≤", 0, "", false, resting(s)},
		},
		below(s, "Wipe", "wiping, peak of the cgroup: ", "cgroup-B", 64*mib),
	)
	for _, call := range []string{"Filter", "Score", "Reserve"} {
		all = append(all, rule{"plugin, " + call + ": largest / smallest cluster", "≤", 1.5, "x", false, growth(s, call+"-sec")})
	}
	for _, prefix := range schedulerPerfWorkloads(s) {
		if strings.HasPrefix(prefix, "SchedulerPerf/volumes/") { // upstream's
			all = append(all, rule{"scheduler_perf, " + strings.TrimPrefix(prefix, "SchedulerPerf/") + ": stowage / stock", "≥", keepUp, "x", true, keepsUp(s, prefix)})
		}
	}
	return all
}

// below bounds a figure of each name below prefix that has it. Disks without a provisioner
// and devices, which are not empty when they are released, have no bound.
func below(s figures.Set, prefix, title, unit string, most float64) []rule {
	var all []rule
	for _, name := range s.Below(prefix).Names() {
		if len(s.Values(name, unit)) > 0 && name != "Appear/disk=none" && name != "Release/disk=block" {
			all = append(all, rule{title + label(name), "<", most, unit, false, median(s, name, unit)})
		}
	}
	return all
}

// Minimums compares the results with all bounds. A figure that is not there is not measured. One that Stowage
// reaches only because some of its pods were never done is missed.
func Minimums(s figures.Set) []Minimum {
	var all []Minimum
	for _, r := range rules(s) {
		m := Minimum{
			Name: r.name, Want: r.sign + " " + figures.Show(r.bound, r.unit), Measured: figures.Show(r.value, r.unit),
			Rounds: r.rounds, Outcome: Met, Note: r.excuse,
		}
		switch {
		case r.cut:
			m.Outcome, m.Note = Missed, "stowage did not get all pods done"
		case math.IsNaN(r.value):
			m.Outcome = NotMeasured
		case !r.holds() && r.excuse == "":
			m.Outcome = Missed
		case r.several && r.rounds < enoughRounds:
			m.Note = "in fewer than 3 rounds"
		}
		all = append(all, m)
	}
	return all
}

func (r rule) holds() bool {
	switch r.sign {
	case "≥":
		return r.value >= r.bound
	case "≤":
		return r.value <= r.bound
	}
	return r.value < r.bound
}

func arm(workload, name string) string { return figures.Arm("Cluster/workload="+workload, name) }

// ratio is the median of a workload's ratios, round by round.
func ratio(s figures.Set, workload, a, b, unit string) measured {
	v, rounds := s.Ratio(arm(workload, a), arm(workload, b), unit)
	return measured{value: v, rounds: rounds, cut: s.Cut(arm(workload, Stowage))}
}

// claimRatio is the ratio of the arms of claims without pods, with 5,000 volumes.
func claimRatio(s figures.Set, a, b string) measured {
	const prefix = "Claims/volumes=5000"
	v, rounds := s.Ratio(figures.Arm(prefix, a), figures.Arm(prefix, b), "claims/s")
	return measured{value: v, rounds: rounds, cut: s.Cut(figures.Arm(prefix, a))}
}

func quotient(x, y measured) measured {
	return measured{value: x.value / y.value, rounds: min(x.rounds, y.rounds), cut: x.cut || y.cut}
}

func median(s figures.Set, name, unit string) measured {
	values := s.Values(name, unit)
	return measured{value: figures.Median(values), rounds: len(values)}
}

// conflictShare is Stowage's refused writes divided by the successful ones.
func conflictShare(s figures.Set, workload string) measured {
	name := arm(workload, Stowage)
	refused, writes := s.Values(name, "409s/pod"), s.Values(name, "writes/pod")
	for i := range refused {
		refused[i] /= writes[i]
	}
	return measured{value: figures.Median(refused), rounds: len(refused), cut: s.Cut(name)}
}

// givenTwice counts the volumes that Stowage bound twice in all workloads. Its rounds are the
// fewest of a workload.
func givenTwice(s figures.Set) measured {
	m := measured{value: math.NaN()}
	for _, name := range slices.Concat(s.Below("Cluster").Names(), s.Below("Claims").Names()) {
		if !strings.Contains(name, "/arm="+Stowage) {
			continue
		}
		values := s.Values(name, "given-twice")
		if math.IsNaN(m.value) {
			m = measured{rounds: len(values)}
		}
		m.rounds = min(m.rounds, len(values))
		for _, v := range values {
			m.value += v
		}
	}
	return m
}

// resting is the requests of devices, which count only if devices were scanned.
func resting(s figures.Set) measured {
	if s.Median("Rest", "scans") > 0 {
		return median(s, "Rest", "requests")
	}
	return measured{value: math.NaN()}
}

// growth divides the figure of the largest cluster by that of the smallest.
func growth(s figures.Set, unit string) measured {
	names := s.Below("Plugin").Names()
	if len(names) < 2 {
		return measured{value: math.NaN()}
	}
	v, rounds := s.Ratio(names[len(names)-1], names[0], unit)
	return measured{value: v, rounds: rounds}
}

// keepsUp is the ratio of an upstream workload. Its claims are bound already, so Stowage has
// nothing to win. The interval of an arm is from its slowest to its fastest round: of 5 rounds,
// that contains the true median with a probability of 94 %.
func keepsUp(s figures.Set, prefix string) measured {
	a, b := figures.Arm(prefix, Stock), figures.Arm(prefix, Stowage)
	v, rounds := s.Ratio(b, a, "pods/s")
	m := measured{value: v, rounds: rounds}
	if v < keepUp && rounds >= enoughRounds && slices.Max(s.Values(b, "pods/s")) >= slices.Min(s.Values(a, "pods/s")) {
		m.excuse = "the intervals overlap"
	}
	return m
}

func minimumTable(s figures.Set) string {
	var all [][]string
	for _, m := range Minimums(s) {
		got := m.Measured
		if m.Outcome == Missed {
			got += ", " + string(Missed)
		}
		if m.Note != "" {
			got += ", " + m.Note
		}
		all = append(all, []string{m.Name, m.Want, got, figures.Show(float64(m.Rounds), "")})
	}
	return Table(1, []string{"figure", "wanted", "measured", "rounds"}, all)
}
