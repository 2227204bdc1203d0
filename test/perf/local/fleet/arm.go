// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/perf/local/figures"
	"stowage.dev/stowage/test/perf/source"
)

// run measures one arm on a new API server, whose cache is warm.
func (s *site) run(ctx context.Context, arm figures.Arm, round int) (*figures.Watch, error) {
	s.Progress("%s watching, round %d of %d", arm, round, s.Rounds)
	if err := s.cluster.APIServer().Restart(ctx); err != nil {
		return nil, err
	}
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	w := &watchers{config: s.cluster.RESTConfig()}
	defer w.stop()
	run := &figures.Watch{Arm: arm, Round: round}
	var err error
	run.Begin, err = s.phase(w, func() error {
		if err := w.start(ctx, selectors(arm)); err != nil {
			return err
		}
		return w.synced(ctx)
	})
	if err != nil {
		return nil, err
	}
	run.Watchers = len(w.all)
	used, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return nil, err
	}
	run.RSS = used.RSS
	run.Update, err = s.phase(w, func() error {
		want := w.events.Load() + expected(arm)
		if err := s.update(ctx); err != nil {
			return err
		}
		return w.reach(ctx, want)
	})
	return run, err
}

// selectors are those of an arm's watchers.
func selectors(arm figures.Arm) []string {
	var all []string
	switch arm {
	case figures.Filtered:
		for n := range nodes {
			all = append(all, localpv.Selector(nodeName(n)))
		}
	case figures.All:
		all = make([]string, watchingAll)
	}
	return all
}

// expected is how many events the updates make.
func expected(arm figures.Arm) int64 {
	switch arm {
	case figures.Filtered:
		return updates
	case figures.All:
		return updates * watchingAll
	}
	return 0
}

// warm has one watcher see everything, and go.
func (s *site) warm(ctx context.Context) error {
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
func (s *site) phase(w *watchers, do func() error) (p figures.Phase, err error) {
	before, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return p, err
	}
	bytes, events, begin := w.bytes.Load(), w.events.Load(), time.Now()
	if err := do(); err != nil {
		return p, err
	}
	p.Seconds = time.Since(begin).Seconds()
	after, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return p, err
	}
	p.CPU, p.Bytes, p.Events = after.CPU-before.CPU, w.bytes.Load()-bytes, w.events.Load()-events
	return p, nil
}
