// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// inflight counts, in mode Advisory, the capacity of pods that passed filter and
// whose node is not known yet: the stock plugin chooses it, and selected-node on
// the claims shows it later. Until then the pod's bytes count as taken from the
// capacity of each node that filter accepted. A pod that comes back has failed elsewhere: it
// counts no longer than from its first attempt on, unless its claims have changed
// since. Safe for concurrent use.
type inflight struct {
	clock clock.PassiveClock
	last  time.Duration

	mu    sync.Mutex
	byPod map[types.UID]*inflightPod
	// taken is the sum over byPod.
	taken map[volumecache.CapacityPool]int64
	// counted has, by pod UID, the count of pods that passed before.
	counted *lru.Cache
}

// inflightPod is one such pod.
type inflightPod struct {
	counted
	pod    types.UID
	name   types.NamespacedName
	claims []string
	bytes  map[volumecache.CapacityPool]int64
	seen   bool // the pod is known to the informer, or was
}

// counted is when a pod no longer counts.
type counted struct {
	until    time.Time
	versions string // resourceVersions of its claims
}

const (
	// maxInflightPerNamespace bounds the pods of a namespace that count at a
	// time; the oldest gives way.
	maxInflightPerNamespace = 64
	// maxInflightBytes bounds what one pod counts, so that no sum overflows.
	maxInflightBytes = 1 << 48
	// manyCounted is how many pods are remembered.
	manyCounted = 1 << 14
)

func newInflight(c clock.PassiveClock, last time.Duration) *inflight {
	return &inflight{
		clock: c, last: last, byPod: map[types.UID]*inflightPod{},
		taken: map[volumecache.CapacityPool]int64{}, counted: lru.New(manyCounted),
	}
}

// begin makes the demand account for all other pods in flight. It returns the
// pod's own entry for add; nil if the pod asks for no tracked capacity.
func (f *inflight) begin(e *Extender, d *volumecache.Demand) *inflightPod {
	if !d.AnyTracked() {
		return nil
	}
	pod := d.Pod()
	own := &inflightPod{pod: pod.UID, name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, bytes: map[volumecache.CapacityPool]int64{}}
	var versions []string
	for use := range claims.Used(pod) {
		own.claims = append(own.claims, use.Name)
		if claim := e.cache.Claim(pod.Namespace, use.Name); claim != nil {
			versions = append(versions, claim.ResourceVersion)
		}
	}
	own.versions = strings.Join(versions, ",")
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	for _, other := range f.byPod {
		if other.pod == own.pod || !now.Before(other.until) || other.landed(e) {
			f.remove(other)
		}
	}
	d.AddPendingUsage(maps.Clone(f.taken))
	return own
}

// add counts the pod, whose bytes are those of the nodes that filter accepted.
func (f *inflight) add(own *inflightPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	own.until = now.Add(f.last)
	if before, ok := f.counted.Get(own.pod); ok && before.(counted).versions == own.versions {
		own.until = before.(counted).until
	}
	f.counted.Add(own.pod, own.counted)
	if !now.Before(own.until) {
		return
	}
	if old := f.byPod[own.pod]; old != nil {
		f.remove(old) // two calls for the pod at a time
	}
	var oldest *inflightPod
	fellows := 0
	for _, other := range f.byPod {
		if other.name.Namespace != own.name.Namespace {
			continue
		}
		if fellows++; oldest == nil || other.until.Before(oldest.until) {
			oldest = other
		}
	}
	if fellows >= maxInflightPerNamespace {
		f.remove(oldest)
	}
	f.byPod[own.pod] = own
	for pool, bytes := range own.bytes {
		f.taken[pool] += min(bytes, maxInflightBytes)
	}
}

// remove stops counting a pod. The caller holds mu.
func (f *inflight) remove(of *inflightPod) {
	delete(f.byPod, of.pod)
	for pool, bytes := range of.bytes {
		if f.taken[pool] -= min(bytes, maxInflightBytes); f.taken[pool] == 0 {
			delete(f.taken, pool)
		}
	}
}

// landed reports whether the engine knows where the pod's claims go, or that they
// go nowhere.
func (p *inflightPod) landed(e *Extender) bool {
	pod, err := e.pods.Pods(p.name.Namespace).Get(p.name.Name)
	exists := err == nil && pod.UID == p.pod
	if p.seen = p.seen || exists; !exists {
		return p.seen // gone, or not known yet
	}
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return true
	}
	for _, name := range p.claims {
		claim := e.cache.Claim(p.name.Namespace, name)
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
