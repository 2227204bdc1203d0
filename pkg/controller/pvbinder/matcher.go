// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// matcher assigns free volumes to the claims that may have any. All claims of a class are assigned
// together: the older ones come first. A claim that gets no volume waits for one, and is answered.
type matcher struct {
	cache  Cache
	claims loop.Queue // of the controller
	// classes have claims that wait, and free volumes that these were not offered. Their names may be
	// empty.
	classes loop.Queue

	mu      sync.Mutex
	waiting map[string]*waiting            // by the claim's key
	byClass map[string]map[string]*waiting // by class, then by the claim's key; none is empty
}

// waiting is a claim that waits for a volume.
type waiting struct {
	request *match.Request
	// answered: it was offered the free volumes at least once.
	answered bool
	// volume is what was assigned to it, nil for none.
	volume *v1.PersistentVolume
}

func newMatcher(cache Cache, claims loop.Queue) *matcher {
	return &matcher{
		cache: cache, claims: claims, classes: loop.NewQueue("pv_binder_classes", retryFirst, retryLast),
		waiting: map[string]*waiting{}, byClass: map[string]map[string]*waiting{},
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
	key, class := keyOf(claim), request.Class
	if w := m.waiting[key]; w != nil && w.request.Claim.UID == claim.UID && w.request.Class == class {
		return w.volume, w.answered
	}
	m.remove(key)
	if m.byClass[class] == nil {
		m.byClass[class] = map[string]*waiting{}
	}
	w := &waiting{request: request}
	m.waiting[key], m.byClass[class][key] = w, w
	m.classes.Add(class)
	return nil, false
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
	class := w.request.Class
	delete(m.waiting, key)
	if delete(m.byClass[class], key); len(m.byClass[class]) == 0 {
		delete(m.byClass, class)
	}
	if w.volume != nil {
		m.cache.Release(w.request.Claim.UID)
		m.offer(m.cache.Volume(w.volume.Name))
	}
}

// changed offers a volume, nil for none, to the claims of its class if it is free.
func (m *matcher) changed(volume *v1.PersistentVolume) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offer(volume)
}

func (m *matcher) offer(volume *v1.PersistentVolume) {
	if volume == nil || !match.Free(volume) {
		return
	}
	if class := match.VolumeClass(volume); len(m.byClass[class]) > 0 {
		m.classes.Add(class)
	}
}

// assign assigns the free volumes of a class to its claims.
func (m *matcher) assign(_ context.Context, class string) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []*waiting
	for _, w := range m.byClass[class] {
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
	requests := make([]*match.Request, len(open))
	for i, w := range open {
		requests[i] = w.request
	}
	for i, volume := range m.cache.AssignAnywhere(class, requests) {
		if w := open[i]; volume != nil || !w.answered {
			w.volume, w.answered = volume, true
			m.claims.Add(keyOf(w.request.Claim))
		}
	}
	return 0, nil
}
