// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"sync"
	"time"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

const (
	// maxWaiting bounds the pods that are listed, maxExplained those that are simulated, and maxChanges what would
	// help each.
	maxWaiting   = 500
	maxExplained = 50
	maxChanges   = 3
	// explainPause is the least time between simulations of two snapshots, and between messages of one.
	explainPause = 500 * time.Millisecond
)

// waiting explains the pods that wait, and puts them on the board.
type waiting struct {
	board   *board
	answers Answers
	// listed has a value if there is a list that is not explained.
	listed chan struct{}

	mu       sync.Mutex
	snapshot *snapshot.Snapshot
	pods     []v1alpha1.WaitingPod
	reports  map[snapshot.Name]*v1alpha1.PodReport
	// explained is the snapshot whose pods have reports.
	explained *snapshot.Snapshot
}

func newWaiting(b *board, answers Answers) *waiting {
	return &waiting{board: b, answers: answers, listed: make(chan struct{}, 1), reports: map[snapshot.Name]*v1alpha1.PodReport{}}
}

// list replaces the pods. Those that were explained before keep that until they are explained again.
func (w *waiting) list(s *snapshot.Snapshot, all []v1alpha1.WaitingPod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshot, w.pods = s, all
	w.show()
	select {
	case w.listed <- struct{}{}:
	default:
	}
}

// show puts the pods on the board. The caller holds the lock.
func (w *waiting) show() {
	listed := w.pods[:min(len(w.pods), maxWaiting)]
	content := pods{Pods: make([]pod, len(listed)), More: len(w.pods) - len(listed), Pending: len(w.pods) > 0 && w.explained != w.snapshot}
	for i, p := range listed {
		content.Pods[i] = podOf(p, w.reports[nameOf(p)])
	}
	w.board.set(eventWaiting, content)
}

func nameOf(p v1alpha1.WaitingPod) snapshot.Name {
	return snapshot.Name{Namespace: p.Namespace, Name: p.Name}
}

// run explains the pods of the newest list until ctx is done. It uses at most a third of the time.
func (w *waiting) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.listed:
		}
		begun := time.Now()
		w.explain(ctx)
		if !live.Pause(ctx, max(explainPause, 2*time.Since(begun))) {
			return nil
		}
	}
}

// explain explains the first pods of the list.
func (w *waiting) explain(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	s, todo := w.snapshot, w.pods[:min(len(w.pods), maxExplained)]
	w.mu.Unlock()
	reports, shown := map[snapshot.Name]*v1alpha1.PodReport{}, time.Now()
	explain := w.answers.Pods(ctx, s)
	for _, p := range todo {
		report, err := explain(nameOf(p))
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			reports[nameOf(p)] = report
		} // else the page shows what the scheduler says
		w.mu.Lock()
		w.reports[nameOf(p)] = reports[nameOf(p)]
		if time.Since(shown) > explainPause {
			w.show()
			shown = time.Now()
		}
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports, w.explained = reports, s
	w.show()
}
