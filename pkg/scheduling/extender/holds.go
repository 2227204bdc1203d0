// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// holds keep pods to their nodes: while a bind is under way, and afterwards while
// volumes are being made there. The second kind repeats what selected-node on the
// claims says, so that a restart, or another replica, changes nothing; it expires.
type holds struct {
	clock clock.PassiveClock
	last  time.Duration

	mu    sync.Mutex
	byPod map[types.UID]*hold
	// sweepAt is the number of holds at which those that have expired are
	// looked for, so that each one costs as much as adding it did.
	sweepAt int
}

type hold struct {
	node  string
	busy  bool // a bind is under way
	until time.Time
}

// fewHolds are not worth a sweep.
const fewHolds = 64

func newHolds(c clock.PassiveClock, last time.Duration) *holds {
	return &holds{clock: c, last: last, byPod: map[types.UID]*hold{}, sweepAt: fewHolds}
}

// begin holds the pod to the node for a bind. It fails while another is under way.
func (h *holds) begin(pod types.UID, node string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.byPod[pod]; old != nil && old.busy {
		return fmt.Errorf("an earlier call is still binding the pod to node %q", old.node)
	}
	if len(h.byPod) >= h.sweepAt {
		now := h.clock.Now()
		for uid, old := range h.byPod {
			if !old.busy && !now.Before(old.until) {
				delete(h.byPod, uid)
			}
		}
		h.sweepAt = max(fewHolds, 2*len(h.byPod))
	}
	h.byPod[pod] = &hold{node: node, busy: true}
	return nil
}

// end ends a bind. With keep the hold goes on until it expires.
func (h *holds) end(pod types.UID, keep bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !keep {
		delete(h.byPod, pod)
		return
	}
	if of := h.byPod[pod]; of != nil {
		of.busy, of.until = false, h.clock.Now().Add(h.last)
	}
}

// node is the one that the pod is held to; "" for none. A hold that no claim of
// the pod bears out any more is over: the volumes are there, or the provisioner
// gave the node back.
func (h *holds) node(d *volumecache.Demand) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	pod := d.Pod().UID
	of := h.byPod[pod]
	switch {
	case of == nil:
		return ""
	case of.busy:
		return of.node
	case !h.clock.Now().Before(of.until), !slices.Contains(slices.Collect(d.Selected), of.node):
		delete(h.byPod, pod)
		return ""
	}
	return of.node
}
