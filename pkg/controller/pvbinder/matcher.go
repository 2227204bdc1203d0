// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// matcher assigns free volumes to the claims that may have any. All claims of a class are assigned
// together: the older ones come first. A claim that gets no volume waits for one, and is answered.
type matcher struct {
	cache  Cache
	claims loop.Queue // of the controller
	// classes have claims that wait, or free volumes that no waiting claim was offered. Class names
	// may be empty.
	classes loop.Queue

	mu      sync.Mutex
	class   map[string]*class
	waiting map[string]*waiting // by the claim's key
	offered map[string]*match.Volume
	held    map[string]*waiting // by the volume's name
}

// class is the free volumes of a class that are not held, and the claims that wait for one.
type class struct {
	free    match.Pool
	waiting map[string]*waiting
	// labels are the label keys by which free is indexed.
	labels sets.Set[string]
}

// maxLabels bounds the indexes of a class, whose keys users choose. Other selectors are evaluated
// volume by volume.
const maxLabels = 16

// index indexes the free volumes for the selector of a request.
func (c *class) index(r *match.Request) {
	for _, key := range r.LabelKeys() {
		if c.labels.Len() < maxLabels {
			c.labels.Insert(key)
			c.free.IndexLabel(key)
		}
	}
}

// waiting is a claim that waits for a volume.
type waiting struct {
	request *match.Request
	uid     types.UID
	key     string
	// answered: the claim is enqueued, or was, since its first assignment.
	answered bool
	// volume is what was assigned to it, nil for none.
	volume *match.Volume
}

func newMatcher(cache Cache, claims loop.Queue) *matcher {
	return &matcher{
		cache: cache, claims: claims, classes: loop.NewQueue("pv_binder_classes", retryFirst, retryLast),
		class: map[string]*class{}, waiting: map[string]*waiting{}, offered: map[string]*match.Volume{}, held: map[string]*waiting{},
	}
}

// choice returns the volume that was assigned to the claim, nil for none. known is false if that is
// not decided: the claim is enqueued when it is.
func (m *matcher) choice(claim *v1.PersistentVolumeClaim) (volume *v1.PersistentVolume, known bool) {
	request, err := match.NewRequest(claim)
	if err != nil {
		return nil, true // no volume matches an invalid selector
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(claim)
	w := m.waiting[key]
	if w == nil || w.uid != claim.UID || w.request.Class != request.Class {
		m.remove(key)
		w = &waiting{request: request, uid: claim.UID, key: key}
		m.waiting[key] = w
		m.ensure(request.Class).waiting[key] = w
		m.classes.Add(request.Class)
		return nil, false
	}
	if w.volume != nil {
		return w.volume.PV, true
	}
	return nil, w.answered
}

// drop removes a claim that waits for no volume, and releases the one that it was assigned.
func (m *matcher) drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
}

func (m *matcher) remove(key string) {
	w := m.waiting[key]
	if w == nil {
		return
	}
	delete(m.waiting, key)
	delete(m.class[w.request.Class].waiting, key)
	m.forget(w.request.Class)
	if w.volume != nil {
		delete(m.held, w.volume.Name)
		m.update(w.volume.Name)
	}
}

// offer updates the free volumes to the newest state of a volume.
func (m *matcher) offer(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.update(name)
}

func (m *matcher) update(name string) {
	if old := m.offered[name]; old != nil {
		m.class[old.Class].free.Remove(old)
		m.forget(old.Class)
		delete(m.offered, name)
	}
	volume := m.cache.Volume(name)
	if volume == nil || m.held[name] != nil || !match.Free(volume) {
		return
	}
	v := match.NewVolume(volume)
	of := m.ensure(v.Class)
	of.free.Insert(v)
	m.offered[name] = v
	if len(of.waiting) > 0 {
		m.classes.Add(v.Class)
	}
}

func (m *matcher) ensure(name string) *class {
	if m.class[name] == nil {
		m.class[name] = &class{waiting: map[string]*waiting{}, labels: sets.Set[string]{}}
	}
	return m.class[name]
}

// assign assigns the free volumes of a class to its claims.
func (m *matcher) assign(_ context.Context, name string) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.class[name]
	if of == nil {
		return 0, nil
	}
	var open []*waiting
	for _, w := range of.waiting {
		if w.volume == nil {
			open = append(open, w)
		}
	}
	slices.SortFunc(open, func(a, b *waiting) int {
		if older(a.request.Claim, b.request.Claim) {
			return -1
		}
		return 1
	})
	s := stock{pool: &of.free, requests: make([]match.Ordered, len(open))}
	for i, w := range open {
		s.requests[i].Request = w.request
		of.index(w.request)
	}
	for i, volume := range match.AssignInOrder(s.requests, s, of.free.Len()) {
		w := open[i]
		if volume != nil {
			w.volume, m.held[volume.Name] = volume, w
			delete(m.offered, volume.Name)
		}
		if volume != nil || !w.answered {
			w.answered = true
			m.claims.Add(w.key)
		}
	}
	return 0, nil
}

// forget removes a class without claims and volumes. Users choose the names of their claims' classes.
func (m *matcher) forget(name string) {
	if of := m.class[name]; of != nil && len(of.waiting) == 0 && of.free.Len() == 0 {
		delete(m.class, name)
	}
}

// stock is the free volumes of a class, for one assignment.
type stock struct {
	pool     *match.Pool
	requests []match.Ordered
}

var _ match.Stock = stock{}

// Cheapest implements match.Stock.
func (s stock) Cheapest(i, k int, dst []*match.Volume) []*match.Volume {
	return s.pool.Cheapest(s.requests[i].Request, k, dst)
}

// Serves implements match.Stock.
func (s stock) Serves(i int, v *match.Volume) bool { return s.requests[i].Matches(v) }

// Take implements match.Stock.
func (s stock) Take(v *match.Volume) { s.pool.Remove(v) }

// Return implements match.Stock.
func (s stock) Return(v *match.Volume) { s.pool.Insert(v) }
