// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localprovisioner

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/local/publish"
)

// retain makes the class's reclaim policy Retain.
func (w *world) retain() {
	w.t.Helper()
	classes := w.api.StorageV1().StorageClasses()
	if err := classes.Delete(context.Background(), "fast", metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := classes.Create(context.Background(), class("fast", corev1.PersistentVolumeReclaimRetain), metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// used has the only volume used, and given back.
func (w *world) used(data string) {
	w.t.Helper()
	w.phase(corev1.VolumeAvailable)
	w.phase(corev1.VolumeBound)
	for identity := range w.disks.data {
		w.disks.write(identity, data)
	}
	w.phase(corev1.VolumeReleased)
}

// TestRetainedDiskIsLookedAtAnew: that a disk was empty when it was published says
// nothing of it when its volume is gone.
func TestRetainedDiskIsLookedAtAnew(t *testing.T) {
	story(t, func(w *world) {
		w.retain()
		identity := w.disks.add("disk1", "")
		w.start()
		w.used("of the first user")
		w.remove()
		w.pass(10 * time.Minute)
		if pv := w.volume(); pv != nil {
			t.Errorf("volume %s offers a retained disk that holds data %q", pv.Name, w.disks.read(identity))
		}
		w.expect("disk1", "Retained: RetainedDirty")

		w.disks.write(identity, "") // by an administrator
		w.pass(10 * time.Minute)
		if w.volume() == nil {
			t.Errorf("a retained disk that was emptied is not published")
		}
	})
}

// TestAcknowledgedData: an administrator's word is for one retention only.
func TestAcknowledgedData(t *testing.T) {
	story(t, func(w *world) {
		w.retain()
		identity := w.disks.add("disk1", "")
		w.start()
		w.used("of the first user")
		first := w.volume()
		w.remove()
		w.pass(time.Minute)
		w.expect("disk1", "Retained: RetainedDirty")

		w.reports.mu.Lock()
		w.reports.known[node].Annotations = map[string]string{
			publish.PublishRetainedAnnotation: "x/y, " + string(identity) + "/" + string(first.UID) + ",",
		}
		w.reports.mu.Unlock()
		w.pass(retainedLast + 2*time.Second)
		second := w.volume()
		if second == nil || second.Name == first.Name {
			t.Fatalf("after the data was acknowledged the volume is %v, want another than %s", second, first.Name)
		}
		w.used("of the second user")
		w.remove()
		w.pass(10 * time.Minute)
		if w.volume() != nil {
			t.Error("data that nobody has acknowledged is published")
		}
	})
}
