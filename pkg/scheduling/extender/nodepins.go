// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// nodePins keep pods on their nodes: during a bind, and afterwards while volumes are
// being provisioned there. The latter repeat selected-node of the claims, so that a
// restart, or another replica, changes nothing; they expire.
type nodePins struct {
	ttl time.Duration

	mu           sync.Mutex
	binding      map[types.UID]string      // nodes of binds in progress, by pod
	provisioning *utilcache.LRUExpireCache // nodes after these, by the pod's UID
}

// maxPins is how many pods whose volumes are being provisioned are pinned.
const maxPins = 1 << 14

func newNodePins(c clock.PassiveClock, ttl time.Duration) *nodePins {
	return &nodePins{ttl: ttl, binding: map[types.UID]string{}, provisioning: utilcache.NewLRUExpireCacheWithClock(maxPins, c)}
}

// begin pins the pod to the node for a bind. It fails while another bind is in progress.
func (p *nodePins) begin(pod types.UID, node string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if earlier, busy := p.binding[pod]; busy {
		return fmt.Errorf("an earlier call is still binding the pod to node %q", earlier)
	}
	p.binding[pod] = node
	return nil
}

// end ends a bind. With keep the pin remains until it expires.
func (p *nodePins) end(pod types.UID, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.provisioning.Remove(pod); keep {
		p.provisioning.Add(pod, p.binding[pod], p.ttl)
	}
	delete(p.binding, pod)
}

// node returns the node that the pod is pinned to; "" for none. A pin is removed when no
// claim of the pod has selected the node: the volumes exist, or the provisioner rejected
// the node.
func (p *nodePins) node(d *volumecache.Demand) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod := d.Pod().UID
	if node, busy := p.binding[pod]; busy {
		return node
	}
	pinned, _ := p.provisioning.Get(pod)
	node, _ := pinned.(string)
	if node != "" && !slices.Contains(slices.Collect(d.Selected), node) {
		p.provisioning.Remove(pod)
		return ""
	}
	return node
}
