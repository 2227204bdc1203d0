// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"

	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/result"
)

// row is one line: medians over the rounds of an arm.
type row struct {
	title         string
	watchers      int
	begin, update Phase
	rss           float64
}

func (w *Watching) rounds() int {
	most := 0
	for _, run := range w.Runs {
		most = max(most, run.Round)
	}
	return most
}

// median of a figure of an arm.
func (w *Watching) median(arm Arm, of func(*Watch) float64) float64 {
	var all []float64
	for i := range w.Runs {
		if w.Runs[i].Arm == arm {
			all = append(all, of(&w.Runs[i]))
		}
	}
	return result.Median(all)
}

func (w *Watching) phase(arm Arm, of func(*Watch) *Phase) Phase {
	return Phase{
		Seconds: w.median(arm, func(r *Watch) float64 { return of(r).Seconds }),
		CPU:     w.median(arm, func(r *Watch) float64 { return of(r).CPU }),
		Bytes:   int64(w.median(arm, func(r *Watch) float64 { return float64(of(r).Bytes) })),
		Events:  int64(w.median(arm, func(r *Watch) float64 { return float64(of(r).Events) })),
	}
}

func (w *Watching) row(arm Arm, title string) row {
	return row{
		title:    title,
		watchers: int(w.median(arm, func(r *Watch) float64 { return float64(r.Watchers) })),
		begin:    w.phase(arm, func(r *Watch) *Phase { return &r.Begin }),
		update:   w.phase(arm, func(r *Watch) *Phase { return &r.Update }),
		rss:      w.median(arm, func(r *Watch) float64 { return float64(r.RSS) }),
	}
}

// scaled is the cost of this number of watchers, if each cost what those of r do beyond
// the idle cost.
func (r row) scaled(nobody row, watchers int) row {
	if r.watchers == 0 {
		return row{}
	}
	by := float64(watchers) / float64(r.watchers)
	phase := func(few, none Phase) Phase {
		return Phase{
			CPU:    none.CPU + by*(few.CPU-none.CPU),
			Bytes:  int64(by * float64(few.Bytes)),
			Events: int64(by * float64(few.Events)),
		}
	}
	return row{
		title: "all, scaled up", watchers: watchers, rss: nobody.rss + by*(r.rss-nobody.rss),
		begin: phase(r.begin, nobody.begin), update: phase(r.update, nobody.update),
	}
}

// lines are those of the table: the arms, and the last arm scaled to all our provisioners.
func (w *Watching) lines() []row {
	nobody, filtered, all := w.row(Nobody, "nobody"), w.row(Filtered, "filtered"), w.row(All, "all")
	return []row{nobody, filtered, all, all.scaled(nobody, filtered.watchers)}
}

func (w *Watching) table() string {
	var first, then [][]string
	for _, r := range w.lines() {
		if r.watchers > 0 {
			first = append(first, []string{r.title, page.Count(r.watchers), took(r.begin), seconds(r.begin.CPU), bytes(r.begin.Bytes), page.Count(r.begin.Events), mib(int64(r.rss))})
		}
		then = append(then, []string{r.title, page.Count(r.watchers), took(r.update), seconds(r.update.CPU), bytes(r.update.Bytes), page.Count(r.update.Events)})
	}
	return fmt.Sprintf("All watchers come, with %s volumes on %s nodes:\n\n", page.Count(w.Volumes), page.Count(w.Nodes)) +
		page.Table("who | watchers | time | CPU of the API server | sent | volumes sent | RSS of the API server", first) +
		fmt.Sprintf("\nThen %s volumes are updated once:\n\n", page.Count(w.Updates)) +
		page.Table("who | watchers | time | CPU of the API server | sent | events sent", then)
}

// took is a phase's time; one that is computed has none.
func took(p Phase) string {
	if p.Seconds == 0 {
		return missing
	}
	return seconds(p.Seconds)
}
