// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"stowage.dev/kubecompat"
)

// wakeInterval bounds how often a pod is woken: like the backoff of the
// scheduling queue, which a woken pod skips.
const wakeInterval = 10 * time.Second

// rejections are the pods that wait for volumes. Safe for concurrent use; its lock is
// taken last.
type rejections struct {
	pods  corelisters.PodLister
	mu    sync.Mutex
	byPod map[types.UID]*rejection
}

// rejection is the last rejection of a pod that waits for volumes.
type rejection struct {
	name     types.NamespacedName
	sequence uint64    // of the Cache at the time
	woken    time.Time // zero: never
	owed     bool      // wake it when wakeInterval has passed
}

// noteRejected records that the cache's current content made the pod unschedulable. The
// caller holds the lock, for reading at least.
func (c *Cache) noteRejected(d *Demand) {
	if len(c.releases.listeners) == 0 || !d.HasUnboundClaims() || d.rejected.Load() || d.rejected.Swap(true) {
		return
	}
	c.rejections.note(d.pod, c.reserved.sequence)
}

func (r *rejections) note(pod *v1.Pod, sequence uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.byPod[pod.UID]
	if last == nil {
		// The informer's store removes a pod before podDeleted drops its rejection.
		if known, err := r.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || known.UID != pod.UID {
			return
		}
		last = &rejection{name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
		r.byPod[pod.UID] = last
	}
	last.sequence = sequence
}

func (r *rejections) drop(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byPod, pod)
}

// since returns the pods that were rejected at the sequence number or later, and those
// that are owed a wake-up, which have no entry in sequences.
func (r *rejections) since(sequence uint64) (pods []*v1.Pod, sequences map[types.UID]uint64) {
	sequences = map[types.UID]uint64{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, last := range r.byPod {
		if !last.owed && last.sequence < sequence {
			continue
		}
		pod, err := r.pods.Pods(last.name.Namespace).Get(last.name.Name)
		if err != nil || pod.UID != uid || pod.Spec.NodeName != "" {
			delete(r.byPod, uid)
			continue
		}
		if !last.owed {
			sequences[uid] = last.sequence
		}
		pods = append(pods, pod)
	}
	return pods, sequences
}

// due returns the pods that may be woken now. The others are owed a wake-up, the first
// of them at next; zero: none.
func (r *rejections) due(pods []*v1.Pod, now time.Time) (due []*v1.Pod, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due = slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		last := r.byPod[pod.UID]
		if last == nil {
			return true // the pod has reserved or was deleted
		}
		at := last.woken.Add(wakeInterval)
		if last.owed = now.Before(at); !last.owed {
			last.woken = now
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
		return last.owed
	})
	return due, next
}

// wakeable returns the pods to wake because of releases.
func (c *Cache) wakeable(released map[release]uint64, now time.Time) []*v1.Pod {
	oldest := uint64(math.MaxUint64)
	for _, began := range released {
		oldest = min(oldest, began)
	}
	pods, sequences := c.rejections.since(oldest)
	pods, next := c.rejections.due(slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		sequence, judge := sequences[pod.UID]
		return judge && !c.releaseMayUnblock(pod, sequence, released)
	}), now)
	if !next.IsZero() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.releases.arm(next)
	}
	return pods
}

// releaseMayUnblock reports whether a release can make a pod schedulable that was
// rejected at the sequence number. What was reserved after that does not matter to it.
func (c *Cache) releaseMayUnblock(pod *v1.Pod, sequence uint64, released map[release]uint64) bool {
	d, refusal, err := c.Demand(pod)
	if refusal != nil || err != nil {
		return false
	}
	group := kubecompat.PodGroup(pod)
	for of, began := range released {
		switch {
		case began > sequence || of.group != "" && of.group == group:
		case of == release{}, d.hasPending(of.claim), of.segment != nil && c.segmentMayUnblock(d, of.class, of.segment),
			of.node != "" && c.nodeMayUnblock(d, of.node):
			return true
		}
	}
	return false
}

// hasPending reports whether the claim is one of the pod's delayed claims.
func (d *Demand) hasPending(claim types.NamespacedName) bool {
	return slices.ContainsFunc(d.groups, func(g group) bool {
		return slices.ContainsFunc(g.pending, func(p pending) bool { return p.key == claim })
	})
}
