// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
)

const (
	// maxBinding bounds the claims of a class that have a volume assigned and not written yet, so that
	// one class does not delay others.
	maxBinding = 100
	// fewSelectors bounds the claims with label selectors that one run considers: users write the
	// selectors, and evaluating one may read all volumes of a class. Those that were considered longest
	// ago come first, of all namespaces in turn.
	fewSelectors = 64
)

// matcher assigns free volumes to the claims that may have any. All claims of a class are assigned
// together, in runs: the older ones come first. A claim that gets no volume waits for one, and is answered.
type matcher struct {
	cache  Cache
	claims loop.Queue // of the controller
	// classes have claims that wait, and free volumes that these were not offered. Their names may be
	// empty. One worker runs them.
	classes loop.Queue

	// mu is not held while claims are assigned, which takes long with many.
	mu      sync.Mutex
	waiting map[string]*waiting // by the claim's key
	byClass map[string]*class   // those with claims that wait
}

// class has the claims of a class that wait.
type class struct {
	claims   int // that wait
	assigned int // of them, that have a volume
	offers   uint64
	// order has the claims, and some that are gone, sorted but for those that came since the last run,
	// which has taken it while it runs.
	order []*waiting
}

// waiting is a claim that waits for a volume.
type waiting struct {
	request *match.Request
	// answered: it was offered the free volumes at least once.
	answered bool
	// volume is what was assigned to it, nil for none.
	volume *v1.PersistentVolume
	gone   bool
	// considered is the class's offers when a run considered the claim; for claims with selectors.
	considered uint64
}

func newMatcher(cache Cache, claims loop.Queue) *matcher {
	return &matcher{
		cache: cache, claims: claims, classes: loop.NewQueue("pv_binder_classes", retryFirst, retryLast),
		waiting: map[string]*waiting{}, byClass: map[string]*class{},
	}
}

// choice returns the volume that was assigned to the claim, nil for none. known is false if that is
// not decided: the claim is enqueued when it is.
func (m *matcher) choice(claim *v1.PersistentVolumeClaim) (volume *v1.PersistentVolume, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(claim)
	if w := m.waiting[key]; w != nil && sameRequest(w.request.Claim, claim) {
		return w.volume, w.answered
	}
	m.remove(key)
	request, err := match.NewRequest(claim)
	if err != nil {
		return nil, true // no volume matches an invalid selector
	}
	of := m.byClass[request.Class]
	if of == nil {
		of = &class{offers: 1}
		m.byClass[request.Class] = of
	}
	w := &waiting{request: request}
	m.waiting[key], of.order = w, append(of.order, w)
	of.claims++
	m.classes.Add(request.Class)
	return nil, false
}

// sameRequest reports whether two versions of a claim fit the same volumes.
func sameRequest(a, b *v1.PersistentVolumeClaim) bool {
	return a == b || a.UID == b.UID && match.ClaimClass(a) == match.ClaimClass(b) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
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
	w.gone = true
	delete(m.waiting, key)
	of := m.byClass[w.request.Class]
	if of.claims--; of.claims == 0 {
		delete(m.byClass, w.request.Class)
	}
	if w.volume != nil {
		of.assigned--
		m.release(w.request, w.volume)
	}
}

// release ends the reservation of a volume, which others may have now.
func (m *matcher) release(request *match.Request, volume *v1.PersistentVolume) {
	m.cache.Release(request.Claim.UID)
	m.offer(m.cache.Volume(volume.Name))
	if m.byClass[request.Class] != nil {
		m.classes.Add(request.Class) // it may have had maxBinding
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
	name := match.VolumeClass(volume)
	if of := m.byClass[name]; of != nil {
		of.offers++
		m.classes.Add(name)
	}
}

// run is one assignment of volumes to claims of a class.
type run struct {
	of     *class
	all    []*waiting // sorted
	offers uint64     // of the class, when it began
	limit  int        // volumes to be assigned
}

// assign assigns the free volumes of a class to its claims.
func (m *matcher) assign(_ context.Context, class string) (time.Duration, error) {
	r := m.begin(class)
	if r == nil {
		return 0, nil
	}
	slices.SortFunc(r.all, func(a, b *waiting) int { return claims.ByAge(a.request.Claim, b.request.Claim) })
	open, more := r.open()
	requests := make([]*match.Request, len(open))
	for i, w := range open {
		requests[i] = w.request
	}
	for _, key := range m.end(r, open, m.cache.AssignAnywhere(class, requests, r.limit)) {
		m.claims.Add(key)
	}
	if more {
		m.classes.Add(class)
	}
	return 0, nil
}

// begin returns a run with the claims of the class; nil if none can be assigned.
func (m *matcher) begin(class string) *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.byClass[class]
	if of == nil {
		return nil
	}
	of.order = slices.DeleteFunc(of.order, func(w *waiting) bool { return w.gone })
	r := &run{of: of, all: of.order, offers: of.offers, limit: maxBinding - of.assigned}
	if r.limit <= 0 {
		return nil // the removal of a claim that has a volume causes the next run
	}
	of.order = nil
	return r
}

// open returns the claims that the run considers, in order. more: others with selectors have not been
// considered since the last offer.
func (r *run) open() (open []*waiting, more bool) {
	var selecting []*waiting
	for _, w := range r.all {
		if w.volume == nil && w.request.Selector != nil && w.considered != r.offers {
			selecting = append(selecting, w)
		}
	}
	slices.SortStableFunc(selecting, func(a, b *waiting) int { return cmp.Compare(a.considered, b.considered) })
	selecting = claims.InTurn(selecting, func(w *waiting) string { return w.request.Claim.Namespace })
	few := min(fewSelectors, len(selecting))
	chosen := sets.New(selecting[:few]...)
	for _, w := range r.all {
		switch {
		case w.volume != nil:
		case chosen.Has(w):
			w.considered = r.offers
			open = append(open, w)
		case w.request.Selector == nil:
			open = append(open, w)
		}
	}
	return open, len(selecting) > few
}

// end records what was assigned, and returns the claims that have an answer now.
func (m *matcher) end(r *run, open []*waiting, volumes []*v1.PersistentVolume) (keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, volume := range volumes {
		w := open[i]
		switch {
		case volume == nil:
			continue
		case w.gone:
			m.release(w.request, volume)
		default:
			w.volume, w.answered = volume, true
			r.of.assigned++
			keys = append(keys, keyOf(w.request.Claim))
		}
		r.limit--
	}
	for _, w := range open {
		switch {
		case r.limit == 0:
			w.considered = 0 // it may have come too late
		case !w.answered && !w.gone:
			w.answered = true
			keys = append(keys, keyOf(w.request.Claim))
		}
	}
	r.of.order = append(r.all, r.of.order...)
	return keys
}
