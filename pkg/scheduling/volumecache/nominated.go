// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
)

const (
	// inheritTime is how long a pod that was nominated before the cache started may wait
	// for volumes whose deletion the cache has not observed.
	inheritTime = time.Minute
	// maxAhead bounds the nominated pods that a cycle accounts for, those of the highest
	// priority first.
	maxAhead = 64
)

// nomination is a pod that uses claims and is nominated to a node but not assigned.
type nomination struct {
	pod   *v1.Pod
	began uint64 // sequence number of the Cache
	// inherited: since before the cache started.
	inherited bool
}

// nominated reports whether the pod waits for the node that it is nominated to.
func nominated(pod *v1.Pod) bool {
	return pod.Status.NominatedNodeName != "" && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil
}

func (c *Cache) podUpdated(pod *v1.Pod) {
	waits := nominated(pod) && claims.Any(pod)
	terminates := terminating(pod) && claims.AnyEphemeral(pod)
	if !waits && !terminates {
		c.mu.RLock()
		known := c.nominated[pod.UID] != nil
		c.mu.RUnlock()
		if !known {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if terminates {
		c.noteTerminating(pod)
	}
	switch known := c.nominated[pod.UID]; {
	case pod.Spec.NodeName != "" || len(c.reserved.byPod[pod.UID]) > 0: // a pod that is being bound has reserved what it needs
		delete(c.nominated, pod.UID)
	case !waits:
		c.endNomination(pod.UID)
	case known != nil && known.pod.Status.NominatedNodeName == pod.Status.NominatedNodeName:
		known.pod = pod
	default:
		c.endNomination(pod.UID)
		c.nominated[pod.UID] = &nomination{pod: pod, began: c.reserved.nextSequence()}
	}
}

// endNomination releases what was withheld for a pod.
func (c *Cache) endNomination(pod types.UID) {
	if n := c.nominated[pod]; n != nil {
		delete(c.nominated, pod)
		c.releases.record(release{node: n.pod.Status.NominatedNodeName}, n.began)
	}
}

// inheritNominations marks the pods that were nominated before the cache started.
func (c *Cache) inheritNominations() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startedAt = c.clock.Now()
	for _, n := range c.nominated {
		n.inherited = true
	}
}

// Withhold makes the storage that nominated pods ahead of the demand's pod need on their
// nodes unavailable to the demand, on all nodes that reach it. Call it before the demand
// is shared. Without nominated pods it does nothing.
func (c *Cache) Withhold(d *Demand) {
	if d.delayed == 0 {
		return
	}
	w := (*withheld)(nil)
	for _, pod := range c.ahead(d.pod) {
		// The informer's store may be ahead of the handlers.
		current, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || current.UID != pod.UID || !nominated(current) {
			continue
		}
		other, refusal, err := c.Demand(current)
		if refusal != nil || err != nil || other.delayed == 0 {
			continue
		}
		if w == nil {
			w = &withheld{volumes: map[string]struct{}{}, free: map[*segment]int{}, bytes: map[CapacityPool]int64{}}
		}
		other.withheld, other.pendingUsage = w, w.bytes
		c.take(w, other)
	}
	if w != nil {
		d.withheld, d.pendingUsage = w, w.bytes
	}
}

// ahead returns the nominated pods that are ahead of the pod, in order.
func (c *Cache) ahead(pod *v1.Pod) []*v1.Pod {
	c.mu.RLock()
	if len(c.nominated) == 0 {
		c.mu.RUnlock()
		return nil
	}
	var ahead []*v1.Pod
	competes := c.nominated[pod.UID] != nil
	for uid, n := range c.nominated {
		order := before(n.pod, pod)
		if !competes { // as for CPU in the scheduler, pods of equal priority are ahead
			order = cmp.Compare(corev1helpers.PodPriority(pod), corev1helpers.PodPriority(n.pod))
		}
		if uid != pod.UID && (order < 0 || order == 0 && !competes) {
			ahead = append(ahead, n.pod)
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(ahead, before)
	return ahead[:min(len(ahead), maxAhead)]
}

// before orders nominated pods: by priority, then by age.
func before(a, b *v1.Pod) int {
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.UID, b.UID),
	)
}

// take adds to w what the pod of the demand needs on its nominated node: from free
// storage, or else from that and what is being reclaimed.
func (c *Cache) take(w *withheld, d *Demand) {
	s := c.scratch.Get().(*solution)
	defer c.putScratch(s)
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.reserved.byPod[d.pod.UID]) > 0 {
		return
	}
	if now, later := c.solveNominated(s, d); now.Code != match.Fits && !later {
		return
	}
	for _, b := range s.bindings {
		w.volumes[b.volume.Name] = struct{}{}
		if v := c.volume[b.volume.Name]; v != nil && v.pool != nil {
			w.free[v.segment]++
		}
	}
	for _, made := range s.provisions {
		if made.pool != nil && !made.held {
			pool := CapacityPool{made.pool}
			w.bytes[pool] = saturate(w.bytes[pool], made.of.Bytes)
		}
	}
}

// solveNominated returns why the claims do not fit the nominated node now, and whether
// they will once storage that is being reclaimed there is free. If either, s contains the
// solution.
func (c *Cache) solveNominated(s *solution, d *Demand) (now match.Reason, later bool) {
	entry := c.index.Node(d.pod.Status.NominatedNodeName)
	if entry == nil {
		return match.Reason{Code: match.NodeConflict}, false
	}
	at := location{entry.Name, entry.Segments}
	now = c.solve(s, d, at, exact)
	if now.Code != match.NoVolume && now.Code != match.NotEnoughSpace {
		return now, false
	}
	freed := c.reclaimedFor(d, at, entry.Object)
	if len(freed) == 0 {
		return now, false
	}
	s.reset()
	what := d.Clone()
	what.SimulateEviction(entry.Name, freed)
	return now, c.solve(s, what, at, exact).Code == match.Fits
}

// Awaits reports whether the pod waits for storage on the node that it is nominated to:
// its claims do not fit there now, but will once storage is reclaimed. Evicting more pods
// would not help it sooner.
func (c *Cache) Awaits(d *Demand) bool {
	if !nominated(d.pod) || d.delayed == 0 {
		return false
	}
	s := c.scratch.Get().(*solution)
	defer c.putScratch(s)
	c.mu.RLock()
	defer c.mu.RUnlock()
	now, later := c.solveNominated(s, d)
	switch {
	case now.Code == match.Fits, later:
		return later
	case now.Code != match.NoVolume && now.Code != match.NotEnoughSpace:
		return false
	}
	n := c.nominated[d.pod.UID]
	return n != nil && n.inherited && c.clock.Now().Sub(c.startedAt) < inheritTime
}
