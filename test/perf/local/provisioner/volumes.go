// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/perf/parts"
)

// waitLimit bounds one wait, so that a long run ends with an error.
const waitLimit = 5 * time.Minute

// volumes records when a client first saw each volume in each phase. Safe for
// concurrent use.
type volumes struct {
	changes parts.Changes

	mu        sync.Mutex
	histories map[types.UID]history
}

// history is what was observed of one volume.
type history struct {
	volume *corev1.PersistentVolume // the newest; not to be changed
	since  map[corev1.PersistentVolumePhase]time.Time
	gone   bool
}

var _ cache.ResourceEventHandler = (*volumes)(nil)

func newVolumes() *volumes {
	return &volumes{histories: map[types.UID]history{}}
}

// OnAdd records a volume.
func (v *volumes) OnAdd(object any, _ bool) { v.observe(object, false) }

// OnUpdate records a volume.
func (v *volumes) OnUpdate(_, object any) { v.observe(object, false) }

// OnDelete records that a volume is deleted.
func (v *volumes) OnDelete(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	v.observe(object, true)
}

func (v *volumes) observe(object any, gone bool) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return
	}
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := history{volume: volume, since: maps.Clone(v.histories[volume.UID].since), gone: gone}
	if seen.since == nil {
		seen.since = map[corev1.PersistentVolumePhase]time.Time{}
	}
	if seen.since[volume.Status.Phase].IsZero() {
		seen.since[volume.Status.Phase] = now
	}
	v.histories[volume.UID] = seen
	v.changes.Notify()
}

// wait waits until is accepts a volume, and returns it.
func (v *volumes) wait(ctx context.Context, what string, is func(*history) bool) (found *history, err error) {
	err = v.changes.Wait(ctx, waitLimit, what, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, l := range v.histories {
			if !l.gone && is(&l) {
				found = &l
				return true
			}
		}
		return false
	})
	return found, err
}

// available waits until a path has an Available volume other than one.
func (v *volumes) available(ctx context.Context, path string, other types.UID) (*history, error) {
	return v.wait(ctx, path+" to be Available", func(l *history) bool {
		return l.volume.UID != other && l.volume.Spec.Local != nil && localpv.PathOf(l.volume) == path &&
			l.volume.DeletionTimestamp == nil && l.volume.Status.Phase == corev1.VolumeAvailable
	})
}
