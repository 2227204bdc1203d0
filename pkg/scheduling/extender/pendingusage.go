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

// inflight accounts, in mode Advisory, for the capacity of pods that passed filter and
// whose node is not known yet: the stock plugin chooses it, and selected-node on the
// claims shows it later. Until then the pod's bytes count as used on each node that
// filter accepted. A pod that filter accepts again has failed elsewhere: its time counts
// from its first attempt, unless its claims have changed since. Safe for concurrent use.
type inflight struct {
	clock clock.PassiveClock
	ttl   time.Duration

	mu    sync.Mutex
	byPod map[types.UID]*inflightPod
	// pending is the sum over byPod.
	pending map[volumecache.CapacityPool]int64
	// counted has the counted of pods that passed before, by UID.
	counted *lru.Cache
}

// inflightPod is one such pod.
type inflightPod struct {
	counted
	pod    types.UID
	name   types.NamespacedName
	claims []string
	bytes  map[volumecache.CapacityPool]int64
	seen   bool // the informer has or had the pod
}

// counted is until when a pod counts.
type counted struct {
	until    time.Time
	versions string // resourceVersions of its claims
}

const (
	// maxInflightPerNamespace bounds the pods of a namespace that count at a time; the
	// oldest is replaced.
	maxInflightPerNamespace = 64
	// maxInflightBytes bounds the bytes of one pod, so that no sum overflows.
	maxInflightBytes = 1 << 48
	// maxCounted is how many pods are remembered.
	maxCounted = 1 << 14
)

func newInflight(c clock.PassiveClock, ttl time.Duration) *inflight {
	return &inflight{
		clock: c, ttl: ttl, byPod: map[types.UID]*inflightPod{},
		pending: map[volumecache.CapacityPool]int64{}, counted: lru.New(maxCounted),
	}
}

// begin makes the demand account for all other pods in flight. It returns the pod's own
// entry for add; nil if the pod requests no tracked capacity.
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
		if other.pod == own.pod || !now.Before(other.until) || other.resolved(e) {
			f.remove(other)
		}
	}
	d.AddPendingUsage(maps.Clone(f.pending))
	return own
}

// add counts the pod, with the bytes on the nodes that filter accepted.
func (f *inflight) add(own *inflightPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	own.until = now.Add(f.ttl)
	if before, ok := f.counted.Get(own.pod); ok && before.(counted).versions == own.versions {
		own.until = before.(counted).until
	}
	f.counted.Add(own.pod, own.counted)
	if !now.Before(own.until) {
		return
	}
	if old := f.byPod[own.pod]; old != nil {
		f.remove(old) // concurrent calls for one pod
	}
	var oldest *inflightPod
	inNamespace := 0
	for _, other := range f.byPod {
		if other.name.Namespace != own.name.Namespace {
			continue
		}
		if inNamespace++; oldest == nil || other.until.Before(oldest.until) {
			oldest = other
		}
	}
	if inNamespace >= maxInflightPerNamespace {
		f.remove(oldest)
	}
	f.byPod[own.pod] = own
	for pool, bytes := range own.bytes {
		f.pending[pool] += min(bytes, maxInflightBytes)
	}
}

// remove stops counting a pod. The caller holds mu.
func (f *inflight) remove(of *inflightPod) {
	delete(f.byPod, of.pod)
	for pool, bytes := range of.bytes {
		if f.pending[pool] -= min(bytes, maxInflightBytes); f.pending[pool] == 0 {
			delete(f.pending, pool)
		}
	}
}

// resolved reports whether the cache has the nodes of the pod's claims, or no claim needs
// one.
func (p *inflightPod) resolved(e *Extender) bool {
	pod, err := e.pods.Pods(p.name.Namespace).Get(p.name.Name)
	exists := err == nil && pod.UID == p.pod
	if p.seen = p.seen || exists; !exists {
		return p.seen // deleted, or not observed yet
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
