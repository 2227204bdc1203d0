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

// nodePins keep pods on their nodes: during a bind, and afterwards while volumes are
// being provisioned there. The latter repeat selected-node of the claims, so that a
// restart, or another replica, changes nothing; they expire.
type nodePins struct {
	clock clock.PassiveClock
	ttl   time.Duration

	mu    sync.Mutex
	byPod map[types.UID]*nodePin
	// sweepAt is the number of pins at which expired ones are removed, so that the cost
	// per pin is constant.
	sweepAt int
}

type nodePin struct {
	node  string
	busy  bool // a bind is in progress
	until time.Time
}

// minSweep is the smallest sweepAt.
const minSweep = 64

func newNodePins(c clock.PassiveClock, ttl time.Duration) *nodePins {
	return &nodePins{clock: c, ttl: ttl, byPod: map[types.UID]*nodePin{}, sweepAt: minSweep}
}

// begin pins the pod to the node for a bind. It fails while another bind is in progress.
func (p *nodePins) begin(pod types.UID, node string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.byPod[pod]; old != nil && old.busy {
		return fmt.Errorf("an earlier call is still binding the pod to node %q", old.node)
	}
	if len(p.byPod) >= p.sweepAt {
		now := p.clock.Now()
		for uid, old := range p.byPod {
			if !old.busy && !now.Before(old.until) {
				delete(p.byPod, uid)
			}
		}
		p.sweepAt = max(minSweep, 2*len(p.byPod))
	}
	p.byPod[pod] = &nodePin{node: node, busy: true}
	return nil
}

// end ends a bind. With keep the pin remains until it expires.
func (p *nodePins) end(pod types.UID, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !keep {
		delete(p.byPod, pod)
		return
	}
	if pin := p.byPod[pod]; pin != nil {
		pin.busy, pin.until = false, p.clock.Now().Add(p.ttl)
	}
}

// node returns the node that the pod is pinned to; "" for none. A pin is removed when no
// claim of the pod has selected the node: the volumes exist, or the provisioner rejected
// the node.
func (p *nodePins) node(d *volumecache.Demand) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod := d.Pod().UID
	pin := p.byPod[pod]
	switch {
	case pin == nil:
		return ""
	case pin.busy:
		return pin.node
	case !p.clock.Now().Before(pin.until), !slices.Contains(slices.Collect(d.Selected), pin.node):
		delete(p.byPod, pod)
		return ""
	}
	return pin.node
}
