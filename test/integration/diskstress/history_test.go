// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskstress_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/fixture"
)

// history records the volumes of each path: that it never has two at a time, and the time
// between two uses. Safe for concurrent use.
type history struct {
	classes []string

	mu         sync.Mutex
	volumes    map[string]types.UID // that exist, by path
	slow       map[string]bool      // paths whose volume kubelet keeps beyond its claim
	freed      map[string]time.Time // when the volume of a path was released
	took       []time.Duration      // from Released to Available
	tookSlow   []time.Duration      // from when kubelet was done, where that was later
	violations []string
}

// follow follows the volumes until the test ends.
func follow(t *testing.T, e *fixture.Env) *history {
	h := &history{
		classes: []string{e.Name("all-files"), e.Name("all-blocks")},
		volumes: map[string]types.UID{}, slow: map[string]bool{}, freed: map[string]time.Time{},
	}
	informer := informers.NewSharedInformerFactory(e.Client, 0).Core().V1().PersistentVolumes().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { h.changed(o) },
		UpdateFunc: func(_, o any) { h.changed(o) },
		DeleteFunc: func(o any) { h.gone(o) },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group wait.Group
	group.StartWithContext(ctx, informer.RunWithContext)
	t.Cleanup(func() { cancel(); group.Wait() })
	if !cache.WaitForCacheSync(e.Context().Done(), informer.HasSynced) {
		t.Fatal("volumes cannot be listed")
	}
	return h
}

func (h *history) changed(object any) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || !slices.Contains(h.classes, volume.Spec.StorageClassName) {
		return
	}
	path := localpv.PathOf(volume)
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, ok := h.volumes[path]; ok && other != volume.UID {
		h.violations = append(h.violations, fmt.Sprintf("%s has volume %s while another one, %s, still exists", path, volume.Name, other))
	}
	h.volumes[path] = volume.UID
	switch {
	case volume.Status.Phase == corev1.VolumeReleased && h.freed[path].IsZero():
		h.freed[path] = time.Now()
	case volume.Status.Phase == corev1.VolumeAvailable && !h.freed[path].IsZero():
		took := time.Since(h.freed[path])
		if h.slow[path] {
			h.tookSlow = append(h.tookSlow, took)
		} else {
			h.took = append(h.took, took)
		}
		delete(h.freed, path)
		delete(h.slow, path)
	case volume.Status.Phase == corev1.VolumeFailed:
		h.violations = append(h.violations, fmt.Sprintf("volume %s (%s) is Failed: %s", volume.Name, path, volume.Status.Message))
	}
}

func (h *history) gone(object any) {
	if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = deleted.Obj
	}
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.Local == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.volumes, localpv.PathOf(volume))
}

// held records that kubelet uses a volume whose claim is about to be deleted, until leave. It
// returns how many volumes have been recycled.
func (h *history) held(volume *corev1.PersistentVolume) int {
	h.mu.Lock()
	h.slow[localpv.PathOf(volume)] = true
	h.mu.Unlock()
	return h.recycled()
}

// recycled is how many volumes became Available after a claim.
func (h *history) recycled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.took) + len(h.tookSlow)
}

func (h *history) leave(volume *corev1.PersistentVolume) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freed[localpv.PathOf(volume)] = time.Now()
}

// finish reports.
func (h *history) finish(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, violation := range h.violations {
		t.Error(violation)
	}
	t.Logf("%d volumes recycled; Released to Available: %s", len(h.took)+len(h.tookSlow), spread(h.took))
	t.Logf("%d of them while kubelet was slow; from when it was done to Available: %s", len(h.tookSlow), spread(h.tookSlow))
}

func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, most %s", at(50), at(90), at(99), at(100))
}
