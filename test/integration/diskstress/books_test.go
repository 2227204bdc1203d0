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

// books record the volumes of each path: that it never has two at a time, and how
// long it is unused between two users. Safe for concurrent use.
type books struct {
	classes []string

	mu       sync.Mutex
	volumes  map[string]types.UID // that exist, by path
	slow     map[string]bool      // paths whose volume kubelet keeps beyond its claim
	freed    map[string]time.Time // when the volume of a path was released
	took     []time.Duration      // from Released to Available
	tookSlow []time.Duration      // from when kubelet was done, where that was later
	mistakes []string
}

// follow follows the volumes until the test ends.
func follow(t *testing.T, e *fixture.Env) *books {
	b := &books{
		classes: []string{e.Name("all-files"), e.Name("all-blocks")},
		volumes: map[string]types.UID{}, slow: map[string]bool{}, freed: map[string]time.Time{},
	}
	informer := informers.NewSharedInformerFactory(e.Client, 0).Core().V1().PersistentVolumes().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { b.changed(o) },
		UpdateFunc: func(_, o any) { b.changed(o) },
		DeleteFunc: func(o any) { b.gone(o) },
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
	return b
}

func (b *books) changed(object any) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || !slices.Contains(b.classes, volume.Spec.StorageClassName) {
		return
	}
	path := localpv.PathOf(volume)
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, ok := b.volumes[path]; ok && other != volume.UID {
		b.mistakes = append(b.mistakes, fmt.Sprintf("%s has volume %s while another one, %s, still exists", path, volume.Name, other))
	}
	b.volumes[path] = volume.UID
	switch {
	case volume.Status.Phase == corev1.VolumeReleased && b.freed[path].IsZero():
		b.freed[path] = time.Now()
	case volume.Status.Phase == corev1.VolumeAvailable && !b.freed[path].IsZero():
		took := time.Since(b.freed[path])
		if b.slow[path] {
			b.tookSlow = append(b.tookSlow, took)
		} else {
			b.took = append(b.took, took)
		}
		delete(b.freed, path)
		delete(b.slow, path)
	case volume.Status.Phase == corev1.VolumeFailed:
		b.mistakes = append(b.mistakes, fmt.Sprintf("volume %s (%s) is Failed: %s", volume.Name, path, volume.Status.Message))
	}
}

func (b *books) gone(object any) {
	if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = deleted.Obj
	}
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.Local == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.volumes, localpv.PathOf(volume))
}

// held records that kubelet uses a volume whose claim is about to be deleted, until leave. It
// returns how many volumes have been recycled.
func (b *books) held(volume *corev1.PersistentVolume) int {
	b.mu.Lock()
	b.slow[localpv.PathOf(volume)] = true
	b.mu.Unlock()
	return b.recycled()
}

// recycled is how many volumes became Available after a claim.
func (b *books) recycled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.took) + len(b.tookSlow)
}

func (b *books) leave(volume *corev1.PersistentVolume) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freed[localpv.PathOf(volume)] = time.Now()
}

// finish reports.
func (b *books) finish(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, mistake := range b.mistakes {
		t.Error(mistake)
	}
	t.Logf("%d volumes recycled; Released to Available: %s", len(b.took)+len(b.tookSlow), spread(b.took))
	t.Logf("%d of them while kubelet was slow; from when it was done to Available: %s", len(b.tookSlow), spread(b.tookSlow))
}

func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, most %s", at(50), at(90), at(99), at(100))
}
