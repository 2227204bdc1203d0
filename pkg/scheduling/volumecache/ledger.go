// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"container/list"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// settleTime bounds how long the bytes of a volume that exists are still held:
	// a driver that never updates its capacity object must not block it for ever.
	settleTime = 2 * time.Minute
	// provisionTime bounds how long bytes are held for a claim that was sent to a node
	// and whose volume does not appear: its provisioner may be gone, or fail for ever.
	provisionTime = 15 * time.Minute
	// ledgerDelay is how long after a release listeners are called, and
	// ledgerInterval how long after the call before, so that one call covers many
	// releases.
	ledgerDelay, ledgerInterval = 100 * time.Millisecond, time.Second
	// wakeInterval bounds how often a pod is woken: like the backoff of the
	// scheduling queue, which a woken pod skips.
	wakeInterval = 10 * time.Second
	// maxReleases bounds how many releases are told apart.
	maxReleases = 1024
)

// ledger records what reservations have released, and which pods were refused while
// they stood: no API event wakes those pods. Its zero value is not ready for use.
type ledger struct {
	listeners map[*Listener]struct{}
	// released holds, until listeners are called, how old the oldest hold was of
	// those that have released it: its began.
	released map[release]uint64
	timer    *time.Timer // calls the listeners; nil: nothing to do
	timerAt  time.Time
	called   time.Time // when the listeners were called last
	// settling are the holds of bytes of volumes that exist, provisioning those of
	// volumes that do not, the oldest first.
	settling, provisioning list.List

	// mu guards all below. It is taken last.
	mu      sync.Mutex
	refused map[types.UID]*refusal
}

// Listener is called when something was released. waiting returns the pods that were
// refused while that was reserved and that it can make schedulable; a pod is
// returned once in wakeInterval.
type Listener func(waiting func() []*v1.Pod)

// release is something that a reservation has released: volumes or bytes of a class in
// a segment, or the choice of a node for a claim. The zero release is anything.
type release struct {
	class   string
	segment *segment
	claim   types.NamespacedName
	// group is the pod group of the pod that had reserved. Its pods are tried
	// together: what one releases after a failed attempt does not help the others.
	group string
}

// refusal is the last one of a pod that waits for volumes.
type refusal struct {
	name  types.NamespacedName
	turn  uint64    // of the cache at the time
	woken time.Time // zero: never
	owed  bool      // it is to be woken when wakeInterval has passed
}

// groupOf is the pod's pod group, "" for none.
func groupOf(pod *v1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return pod.Namespace + "/" + *g.PodGroupName
	}
	return ""
}

// OnRelease has the listener called, from a goroutine of its own and without locks, soon
// after reservations were released without success or have expired. The caller calls
// stop when done; a call under way is not waited for.
func (c *Cache) OnRelease(listener Listener) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.listeners[&listener] = struct{}{}
	c.armExpiry()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ledger.listeners, &listener)
		if len(c.ledger.listeners) == 0 && c.ledger.timer != nil {
			c.ledger.timer.Stop()
			c.ledger.timer = nil
		}
	}
}

// noteRelease records what a hold has released in a segment, or for its claim if that is
// nil.
func (c *Cache) noteRelease(h *hold, class string, of *segment) {
	r := release{class: class, segment: of, group: h.group}
	if of == nil {
		r.claim = h.claim
	}
	c.record(r, h.began)
}

// record adds a release of what pods were kept from since the turn began.
func (c *Cache) record(r release, began uint64) {
	l := &c.ledger
	if len(l.listeners) == 0 {
		return
	}
	if len(l.released) >= maxReleases {
		r = release{}
	}
	if oldest, ok := l.released[r]; !ok || began < oldest {
		l.released[r] = began
	}
	now := time.Now()
	c.arm(later(now.Add(ledgerDelay), l.called.Add(ledgerInterval)))
}

// arm has the listeners called at a time, or before.
func (c *Cache) arm(at time.Time) {
	l := &c.ledger
	if len(l.listeners) == 0 || l.timer != nil && !at.Before(l.timerAt) {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.timerAt = time.AfterFunc(time.Until(at), c.callListeners), at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// callListeners tells the listeners what was released since the last call.
func (c *Cache) callListeners() {
	c.mu.Lock()
	l := &c.ledger
	l.timer = nil
	c.expire()
	released, now := l.released, time.Now()
	l.released, l.called = map[release]uint64{}, now
	c.armExpiry()
	var listeners []Listener
	for listener := range l.listeners {
		listeners = append(listeners, *listener)
	}
	c.mu.Unlock()
	waiting := sync.OnceValue(func() []*v1.Pod { return c.wakeable(released, now) })
	for _, listener := range listeners {
		listener(waiting)
	}
}

// noteRefused records that the pod was refused by what the cache holds now. The caller
// holds the lock, for reading at least.
func (c *Cache) noteRefused(d *Demand) {
	if len(c.ledger.listeners) == 0 || !d.HasUnboundClaims() || d.refused.Load() || d.refused.Swap(true) {
		return
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	r := c.ledger.refused[d.pod.UID]
	if r == nil {
		// The store forgets a pod before podGone drops its refusal.
		if known, err := c.pods.Pods(d.pod.Namespace).Get(d.pod.Name); err != nil || known.UID != d.pod.UID {
			return
		}
		r = &refusal{name: types.NamespacedName{Namespace: d.pod.Namespace, Name: d.pod.Name}}
		c.ledger.refused[d.pod.UID] = r
	}
	r.turn = c.turn
}

// dropRefusal forgets that a pod was refused.
func (l *ledger) dropRefusal(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.refused, pod)
}

// wakeable returns the pods that are to be woken because of releases.
func (c *Cache) wakeable(released map[release]uint64, now time.Time) []*v1.Pod {
	oldest := uint64(math.MaxUint64)
	for _, began := range released {
		oldest = min(oldest, began)
	}
	var pods []*v1.Pod
	turns := map[types.UID]uint64{} // of those that are not owed
	c.ledger.mu.Lock()
	for uid, r := range c.ledger.refused {
		if !r.owed && r.turn < oldest {
			continue
		}
		pod, err := c.pods.Pods(r.name.Namespace).Get(r.name.Name)
		if err != nil || pod.UID != uid || pod.Spec.NodeName != "" {
			delete(c.ledger.refused, uid)
			continue
		}
		if !r.owed {
			turns[uid] = r.turn
		}
		pods = append(pods, pod)
	}
	c.ledger.mu.Unlock()
	return c.pace(slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		turn, judge := turns[pod.UID]
		return judge && !c.releaseHelps(pod, turn, released)
	}), now)
}

// releaseHelps tells whether something that was released can make a pod schedulable
// which was refused at the turn. What was reserved after that has changed nothing.
func (c *Cache) releaseHelps(pod *v1.Pod, turn uint64, released map[release]uint64) bool {
	d, refusal, err := c.Demand(pod)
	if refusal != nil || err != nil {
		return false
	}
	group := groupOf(pod)
	for of, began := range released {
		switch {
		case began > turn || of.group != "" && of.group == group:
		case of == release{}, d.asksFor(of.claim), of.segment != nil && c.segmentHelps(d, of.class, of.segment):
			return true
		}
	}
	return false
}

// asksFor tells whether a claim that the pod waits with is that one.
func (d *Demand) asksFor(claim types.NamespacedName) bool {
	return slices.ContainsFunc(d.groups, func(g group) bool {
		return slices.ContainsFunc(g.pending, func(p pending) bool { return p.key == claim })
	})
}

// pace returns the pods that are woken now. The others are woken when their time has
// come.
func (c *Cache) pace(pods []*v1.Pod, now time.Time) []*v1.Pod {
	var next time.Time
	c.ledger.mu.Lock()
	pods = slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		r := c.ledger.refused[pod.UID]
		if r == nil {
			return true // it has reserved meanwhile, or is gone
		}
		due := r.woken.Add(wakeInterval)
		if r.owed = now.Before(due); !r.owed {
			r.woken = now
		} else if next.IsZero() || due.Before(next) {
			next = due
		}
		return r.owed
	})
	c.ledger.mu.Unlock()
	if !next.IsZero() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.arm(next)
	}
	return pods
}

// noteAppeared notes that the volume which a hold is for exists.
func (c *Cache) noteAppeared(h *hold) {
	h.turn = c.nextTurn()
	if h.room != nil {
		c.queue(h, &c.ledger.settling)
	}
}

// queue has the hold expire settleTime or provisionTime from now.
func (c *Cache) queue(h *hold, among *list.List) {
	c.expire() // also where nobody asks
	c.unqueue(h)
	h.since, h.queue = c.clock.Now(), among
	h.place = among.PushBack(h)
	c.armExpiry()
}

// unqueue undoes queue.
func (c *Cache) unqueue(h *hold) {
	if h.place != nil {
		h.queue.Remove(h.place)
		h.place = nil
	}
}

// next returns the hold that expires next, nil for none, and when.
func (l *ledger) next() (first *hold, at time.Time) {
	if front := l.settling.Front(); front != nil {
		first = front.Value.(*hold)
		at = first.since.Add(settleTime)
	}
	if front := l.provisioning.Front(); front != nil {
		h := front.Value.(*hold)
		if due := h.since.Add(provisionTime); first == nil || due.Before(at) {
			first, at = h, due
		}
	}
	return first, at
}

// expire releases the bytes of holds whose time has passed. Each hold is looked at once.
func (c *Cache) expire() {
	for now := c.clock.Now(); ; {
		h, at := c.ledger.next()
		if h == nil || !now.After(at) {
			return
		}
		c.noteRelease(h, h.room.class, h.room.segment)
		if h.turn > 0 {
			c.countIn(h)
		} else {
			c.vacate(h) // the hold itself stands while the claim is sent to the node
			h.overdue = true
		}
	}
}

// expireDue is expire for callers without the lock.
func (c *Cache) expireDue() {
	c.mu.RLock()
	h, at := c.ledger.next()
	due := h != nil && c.clock.Now().After(at)
	c.mu.RUnlock()
	if due {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.expire()
	}
}

// armExpiry has the listeners called when the next hold expires.
func (c *Cache) armExpiry() {
	if h, at := c.ledger.next(); h != nil {
		c.arm(time.Now().Add(max(0, at.Sub(c.clock.Now())) + ledgerInterval))
	}
}
