// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// overdue is after how long an expectation is given up: what was written may have been
// deleted while the watch was broken, so that no event tells of it.
const expectationTimeout = 30 * time.Second

// expectations are the agent's own writes that the informer has not shown yet, by
// path. A slot with one is not decided about: it would look as if its volume had
// vanished, or had never been asked to go.
type expectations struct {
	mu    sync.Mutex
	known map[string]expectation
}

type expectation struct {
	uid types.UID
	// shown says that the informer has shown the volume before: if it shows it no more,
	// the volume is gone, which may be told before our own request is answered.
	shown bool
	// version is the least resourceVersion to be seen; empty asks for a deletionTimestamp.
	version string
	at      time.Time
}

func newExpectations() *expectations { return &expectations{known: map[string]expectation{}} }

// create says that the volume was created.
func (e *expectations) create(volume *corev1.PersistentVolume) {
	e.add(pathOf(volume), expectation{uid: volume.UID, version: volume.ResourceVersion, at: time.Now()})
}

// update says that the volume was changed, and is to be seen as it is here, or gone.
func (e *expectations) update(volume *corev1.PersistentVolume) {
	e.add(pathOf(volume), expectation{uid: volume.UID, shown: true, version: volume.ResourceVersion, at: time.Now()})
}

// delete says that the volume's deletion was asked for.
func (e *expectations) delete(volume *corev1.PersistentVolume) {
	e.add(pathOf(volume), expectation{uid: volume.UID, shown: true, at: time.Now()})
}

func (e *expectations) add(path string, x expectation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[path] = x
}

// seen tells of a volume that the informer shows.
func (e *expectations) seen(volume *corev1.PersistentVolume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := pathOf(volume)
	if x, ok := e.known[path]; ok && x.met(volume) {
		delete(e.known, path)
	}
}

// gone tells of a volume that the informer does not show any more.
func (e *expectations) gone(volume *corev1.PersistentVolume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if path := pathOf(volume); e.known[path].uid == volume.UID {
		delete(e.known, path)
	}
}

// pending says whether a slot has to wait, and until when at the latest. shown is what
// the informer has now, since it may have been quicker than our own request.
func (e *expectations) pending(path string, shown []*corev1.PersistentVolume) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := e.known[path]
	if !ok {
		return 0, false
	}
	gone := x.shown && !slices.ContainsFunc(shown, func(v *corev1.PersistentVolume) bool { return v.UID == x.uid })
	left := expectationTimeout - time.Since(x.at)
	if gone || slices.ContainsFunc(shown, x.met) || left <= 0 {
		delete(e.known, path)
		return 0, false
	}
	return left, true
}

func (x *expectation) met(volume *corev1.PersistentVolume) bool {
	if volume.UID != x.uid {
		return false
	}
	if x.version == "" {
		return volume.DeletionTimestamp != nil
	}
	order, err := resourceversion.CompareResourceVersion(volume.ResourceVersion, x.version)
	return err != nil || order >= 0
}
