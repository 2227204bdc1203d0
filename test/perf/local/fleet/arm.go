// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/source"
)

// The arms: who watches.
const (
	none     = "none"
	filtered = "filtered"
	all      = "all"
)

// phase is the API server's work in some time.
type phase struct {
	seconds, cpu  float64
	bytes, events int64 // sent to the watchers; bytes are encrypted
}

// values are the figures of a phase.
func (p phase) values(name, events string) []figures.Value {
	return []figures.Value{
		{Value: p.seconds, Unit: name + "-sec"}, {Value: p.cpu, Unit: name + "-cpu-sec"},
		{Value: float64(p.bytes), Unit: name + "-sent-B"}, {Value: float64(p.events), Unit: name + "-" + events},
	}
}

// run measures one arm on a new API server, whose cache is warm.
func (s *setup) run(ctx context.Context, arm string, round int) (*benchfmt.Result, error) {
	s.Progress("%s watching, round %d of %d", arm, round, s.Rounds)
	if err := s.cluster.APIServer().Restart(ctx); err != nil {
		return nil, err
	}
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	w := &watchers{config: s.cluster.RESTConfig()}
	defer w.stop()
	connect, err := s.phase(w, func() error {
		if err := w.start(ctx, selectors(arm)); err != nil {
			return err
		}
		return w.synced(ctx)
	})
	if err != nil {
		return nil, err
	}
	used, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return nil, err
	}
	update, err := s.phase(w, func() error {
		want := w.events.Load() + expected(arm)
		if err := s.update(ctx); err != nil {
			return err
		}
		return w.reach(ctx, want)
	})
	if err != nil {
		return nil, err
	}
	if len(w.all) == 0 {
		connect.seconds = math.NaN() // nothing connects
	}
	values := []figures.Value{{Value: float64(len(w.all)), Unit: "watchers"}, {Value: float64(used.RSS), Unit: "rss-B"}}
	return figures.Line("Watch/watchers="+arm, 1, slices.Concat(values, connect.values("connect", "volumes"), update.values("update", "events"))...), nil
}

// selectors are those of an arm's watchers.
func selectors(arm string) []string {
	var selecting []string
	switch arm {
	case filtered:
		for n := range nodes {
			selecting = append(selecting, localpv.Selector(nodeName(n)))
		}
	case all:
		selecting = make([]string, watchingAll)
	}
	return selecting
}

// expected is how many events the updates make.
func expected(arm string) int64 {
	switch arm {
	case filtered:
		return updates
	case all:
		return updates * watchingAll
	}
	return 0
}

// warm has one watcher see everything, and go.
func (s *setup) warm(ctx context.Context) error {
	w := &watchers{config: s.cluster.RESTConfig()}
	defer w.stop()
	if err := w.start(ctx, []string{""}); err != nil {
		return err
	}
	if err := w.synced(ctx); err != nil {
		return err
	}
	if got := w.events.Load(); got != int64(len(s.names)) {
		return fmt.Errorf("a watcher saw %d volumes, not %d", got, len(s.names))
	}
	return nil
}

// phase measures the work of the API server during do.
func (s *setup) phase(w *watchers, do func() error) (p phase, err error) {
	before, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return p, err
	}
	bytes, events, begin := w.bytes.Load(), w.events.Load(), time.Now()
	if err := do(); err != nil {
		return p, err
	}
	p.seconds = time.Since(begin).Seconds()
	after, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return p, err
	}
	p.cpu, p.bytes, p.events = after.CPU-before.CPU, w.bytes.Load()-bytes, w.events.Load()-events
	return p, nil
}
