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
	// for volumes that the cache has not seen go.
	inheritTime = time.Minute
	// mostAhead bounds the nominated pods that a cycle accounts for. The most important
	// come first.
	mostAhead = 64
)

// nomination is a pod that has no node yet but is nominated to one, and uses claims.
type nomination struct {
	pod   *v1.Pod
	began uint64 // the cache's turn
	// inherited: since before the cache started.
	inherited bool
}

// nominated tells whether the pod waits for the node that it is nominated to.
func nominated(pod *v1.Pod) bool {
	return pod.Status.NominatedNodeName != "" && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil
}

// podSeen takes in a pod that the informer shows.
func (c *Cache) podSeen(pod *v1.Pod) {
	waits := nominated(pod) && claims.Any(pod)
	leaves := leaving(pod) && claims.AnyEphemeral(pod)
	if !waits && !leaves {
		c.mu.RLock()
		known := c.nominated[pod.UID] != nil
		c.mu.RUnlock()
		if !known {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if leaves {
		c.noteLeaving(pod)
	}
	switch known := c.nominated[pod.UID]; {
	case pod.Spec.NodeName != "" || len(c.byPod[pod.UID]) > 0: // a pod that is being bound has reserved what it needs
		delete(c.nominated, pod.UID)
	case !waits:
		c.endNomination(pod.UID)
	case known != nil && known.pod.Status.NominatedNodeName == pod.Status.NominatedNodeName:
		known.pod = pod
	default:
		c.endNomination(pod.UID)
		c.nominated[pod.UID] = &nomination{pod: pod, began: c.nextTurn()}
	}
}

// endNomination is for a pod that does not get what was withheld for it: others may.
func (c *Cache) endNomination(pod types.UID) {
	if n := c.nominated[pod]; n != nil {
		delete(c.nominated, pod)
		c.record(release{}, n.began)
	}
}

// inheritNominations notes which pods were nominated before the cache started.
func (c *Cache) inheritNominations() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startedAt = c.clock.Now()
	for _, n := range c.nominated {
		n.inherited = true
	}
}

// withheld is what nominated pods need of the storage within reach of their nodes.
type withheld struct {
	volumes map[string]struct{} // by name, those too that are on their way back
	// free counts those that are free, by segment.
	free  map[*segment]int
	bytes map[CapacityPool]int64
}

// on tells whether a free volume on the spot is withheld.
func (w *withheld) on(segments []*segment) bool {
	return w != nil && slices.ContainsFunc(segments, func(s *segment) bool { return w.free[s] > 0 })
}

// in is how many free volumes of the segment are withheld.
func (w *withheld) in(s *segment) int {
	if w == nil {
		return 0
	}
	return w.free[s]
}

// has tells whether the volume is withheld.
func (w *withheld) has(name string) bool {
	if w == nil {
		return false
	}
	_, ok := w.volumes[name]
	return ok
}

// Withhold takes from what the demand sees what nominated pods that go before its pod
// need on their nodes, from any node that reaches it. Call it before the demand is
// shared. Without nominated pods it costs nothing.
func (c *Cache) Withhold(d *Demand) {
	if d.delayed == 0 {
		return
	}
	w := (*withheld)(nil)
	for _, pod := range c.ahead(d.pod) {
		// The informer's store may have a newer state than the handlers were called with.
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
		other.withheld, other.besides = w, w.bytes
		c.take(w, other)
	}
	if w != nil {
		d.withheld, d.besides = w, w.bytes
	}
}

// ahead returns the nominated pods that go before the pod, in order.
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
		if !competes { // as the scheduler does for CPU, it yields to its equals
			order = cmp.Compare(corev1helpers.PodPriority(pod), corev1helpers.PodPriority(n.pod))
		}
		if uid != pod.UID && (order < 0 || order == 0 && !competes) {
			ahead = append(ahead, n.pod)
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(ahead, before)
	return ahead[:min(len(ahead), mostAhead)]
}

// before orders nominated pods: by priority, then the oldest first.
func before(a, b *v1.Pod) int {
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.UID, b.UID),
	)
}

// take adds to w what the pod of the demand needs on its nominated node: of what is
// free, or else of that and what is on its way back.
func (c *Cache) take(w *withheld, d *Demand) {
	s := c.scratch.Get().(*solution)
	defer c.putScratch(s)
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.byPod[d.pod.UID]) > 0 {
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
		if made.room != nil && !made.held {
			pool := CapacityPool{made.room}
			w.bytes[pool] = saturate(w.bytes[pool], made.of.Bytes)
		}
	}
}

// solveNominated tells why the claims do not fit the nominated node now, and whether they
// will once what is on its way there is back. If they fit, s holds the solution.
func (c *Cache) solveNominated(s *solution, d *Demand) (now match.Reason, later bool) {
	entry := c.index.Node(d.pod.Status.NominatedNodeName)
	if entry == nil {
		return match.Reason{Code: match.NodeConflict}, false
	}
	at := spot{entry.Name, entry.Segments}
	now = c.solve(s, d, at, exact)
	if now.Code != match.NoVolume && now.Code != match.NotEnoughSpace {
		return now, false
	}
	freed := c.returningTo(d, at, entry.Object)
	if len(freed) == 0 {
		return now, false
	}
	s.reset()
	what := d.Clone()
	what.Evict(entry.Name, freed)
	return now, c.solve(s, what, at, exact).Code == match.Fits
}

// Awaits tells whether the pod waits for storage on the node that it is nominated to:
// its claims do not fit there, and will once what is on its way back has arrived.
// Evicting more pods would not help it any sooner.
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
