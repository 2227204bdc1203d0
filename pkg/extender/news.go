// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"
)

// news is what the informers show. The scheduler has a watch of its own, and may be
// ahead by a moment: it tries a pod again because of a volume that the extender has
// not been shown. Refused for the want of it, the pod would wait for another event,
// of whatever kind. So a pod that fits nowhere is decided about once more when
// something comes, if it looks as if something should:
//
//   - the pod itself, or a claim of it, has not been shown yet; or
//   - the scheduler asks again, and nothing was shown since it was told no.
//
// Where nothing comes, others do not wait for a while. A pod that is refused
// meanwhile is no worse off: where events are that frequent, the next one has it
// tried again. Safe for concurrent use.
type news struct {
	patience time.Duration

	mu      sync.Mutex
	count   uint64        // of what was shown
	came    chan struct{} // closed when more is; nil: nobody waits
	refused *lru.Cache    // what count was when pods were refused last, by UID
	rested  time.Time     // when pods may wait again
}

const (
	// newsComes is how long a pod waits for what the scheduler knows, and at
	// most an eighth of what a call may take.
	newsComes = 100 * time.Millisecond
	// restAfter is how many times as long as one has waited in vain others do
	// not wait.
	restAfter = 9
	// manyRefused is how many pods are remembered.
	manyRefused = 1 << 14
)

// newNews makes news for calls that may take so long, from the objects that decide.
func newNews(verb time.Duration, factory informers.SharedInformerFactory) (*news, error) {
	n := &news{patience: min(newsComes, verb/8), refused: lru.New(manyRefused)}
	core, storage := factory.Core().V1(), factory.Storage().V1()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { n.shown() },
		UpdateFunc: func(_, _ any) { n.shown() },
		DeleteFunc: func(any) { n.shown() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Nodes().Informer(), core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer(),
		storage.StorageClasses().Informer(), storage.CSIStorageCapacities().Informer(),
		storage.CSIDrivers().Informer(), storage.CSINodes().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("follow what informers show: %w", err)
		}
	}
	return n, nil
}

// shown notes that there is more.
func (n *news) shown() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	if n.came != nil {
		close(n.came)
		n.came = nil
	}
}

// look is one pod's question; not safe for concurrent use.
type look struct {
	of    *news
	pod   types.UID
	count uint64    // what was shown when it was decided about
	since time.Time // when it was refused first; zero: not yet
}

// begin begins to decide about a pod.
func (n *news) begin(pod types.UID) *look {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &look{of: n, pod: pod, count: n.count}
}

// again tells whether to decide once more about a pod that was refused: something
// was missing and more has come. It waits for that, no longer than the patience since
// the pod was refused first. seen tells whether the pod and its claims have been shown.
func (l *look) again(ctx context.Context, seen func() bool) bool {
	if l.since.IsZero() {
		l.since = time.Now()
		if !l.missing(seen()) {
			return false
		}
	}
	left := l.of.patience - time.Since(l.since)
	if left <= 0 { // deciding took as long, and more may come for ever
		l.of.rest(time.Since(l.since))
		return false
	}
	patience := time.NewTimer(left)
	defer patience.Stop()
	for {
		more, came := l.more()
		if more {
			return true
		}
		select {
		case <-came:
		case <-patience.C:
			l.of.rest(time.Since(l.since))
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// missing notes that the pod was refused, and tells whether something has not been
// shown.
func (l *look) missing(seen bool) bool {
	n := l.of
	n.mu.Lock()
	defer n.mu.Unlock()
	before, known := n.refused.Get(l.pod)
	n.refused.Add(l.pod, l.count)
	return (!seen || known && before == l.count) && !l.since.Before(n.rested)
}

// more tells whether something was shown since it was decided; if not, what is
// closed when it is.
func (l *look) more() (bool, <-chan struct{}) {
	n := l.of
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.count == n.count {
		if n.came == nil {
			n.came = make(chan struct{})
		}
		return false, n.came
	}
	l.count = n.count
	n.refused.Add(l.pod, l.count)
	return true, nil
}

// rest has others not wait for a while, as one has in vain.
func (n *news) rest(waited time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rested = time.Now().Add(restAfter * waited)
}
