// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"maps"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"stowage.dev/stowage/pkg/volume/claims"
	"stowage.dev/stowage/pkg/volumecache"
)

// flights are, in mode Advisory, the pods that have been let through and whose
// node is not known: the stock plugin chooses it and nobody tells until
// selected-node shows on the claims. Until then what such a pod asks of a class
// counts as taken wherever others ask for that class: rather a pod is tried again
// than capacity given twice.
type flights struct {
	clock clock.PassiveClock
	last  time.Duration

	mu    sync.Mutex
	byPod map[types.UID]*flight
}

// flight is one such pod.
type flight struct {
	pod    types.UID
	name   types.NamespacedName
	claims []string
	bytes  map[string]int64 // by class
	until  time.Time
	seen   bool // the pod is known to the informer, or was
}

func newFlights(c clock.PassiveClock, last time.Duration) *flights {
	return &flights{clock: c, last: last, byPod: map[types.UID]*flight{}}
}

// begin makes the demand reckon with all other flights, and returns the pod's own
// for add; nil if it asks for no capacity that is limited.
func (f *flights) begin(e *Extender, d *volumecache.Demand) *flight {
	bytes := maps.Collect(d.Tracked)
	if len(bytes) == 0 {
		return nil
	}
	pod := d.Pod()
	own := &flight{pod: pod.UID, name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, bytes: bytes}
	for use := range claims.Used(pod) {
		own.claims = append(own.claims, use.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byPod, pod.UID) // it is being tried again
	now, others := f.clock.Now(), map[string]int64{}
	for uid, other := range f.byPod {
		if !now.Before(other.until) || other.landed(e) {
			delete(f.byPod, uid)
			continue
		}
		for class, bytes := range other.bytes {
			if others[class] > math.MaxInt64-bytes {
				bytes = math.MaxInt64 - others[class]
			}
			others[class] += bytes
		}
	}
	d.Besides(others)
	return own
}

// add notes that the pod was let through.
func (f *flights) add(own *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	own.until = f.clock.Now().Add(f.last)
	f.byPod[own.pod] = own
}

// landed tells whether the engine knows where the pod's claims go, or that they
// go nowhere.
func (own *flight) landed(e *Extender) bool {
	pod, err := e.pods.Pods(own.name.Namespace).Get(own.name.Name)
	there := err == nil && pod.UID == own.pod
	if own.seen = own.seen || there; !there {
		return own.seen // gone, or not known yet
	}
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return true
	}
	for _, name := range own.claims {
		claim := e.cache.Claim(own.name.Namespace, name)
		if claim == nil || claim.Spec.VolumeName != "" {
			continue
		}
		if claims.SelectedNode(claim) == "" {
			return false
		}
		e.cache.ObserveClaim(claim.Namespace, claim.Name)
	}
	return true
}
