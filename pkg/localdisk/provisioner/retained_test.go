// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// retain makes the class's reclaim policy Retain.
func (e *env) retain() {
	e.t.Helper()
	classes := e.api.StorageV1().StorageClasses()
	if err := classes.Delete(context.Background(), "fast", metav1.DeleteOptions{}); err != nil {
		e.t.Fatal(err)
	}
	if _, err := classes.Create(context.Background(), class("fast", corev1.PersistentVolumeReclaimRetain), metav1.CreateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// used has the only volume used, and given back.
func (e *env) useAndRelease(data string) {
	e.t.Helper()
	e.phase(corev1.VolumeAvailable)
	e.phase(corev1.VolumeBound)
	for identity := range e.disks.data {
		e.disks.write(identity, data)
	}
	e.phase(corev1.VolumeReleased)
}

// TestRetainedDiskIsLookedAtAnew: that a disk was empty when it was published says
// nothing of it when its volume is gone.
func TestRetainedDiskIsInspectedAgain(t *testing.T) {
	inBubble(t, func(w *env) {
		w.retain()
		identity := w.disks.add("disk1", "")
		w.start()
		w.useAndRelease("of the first user")
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
	inBubble(t, func(w *env) {
		w.retain()
		identity := w.disks.add("disk1", "")
		w.start()
		w.useAndRelease("of the first user")
		first := w.volume()
		w.remove()
		w.pass(time.Minute)
		w.expect("disk1", "Retained: RetainedDirty")

		w.reports.mu.Lock()
		w.reports.known[node].Annotations = map[string]string{
			wellknown.PublishRetainedAnnotation: "x/y, " + string(identity) + "/" + string(first.UID) + ",",
		}
		w.reports.mu.Unlock()
		w.pass(retainedRecheckLast + 2*time.Second)
		second := w.volume()
		if second == nil || second.Name == first.Name {
			t.Fatalf("after the data was acknowledged the volume is %v, want another than %s", second, first.Name)
		}
		w.useAndRelease("of the second user")
		w.remove()
		w.pass(10 * time.Minute)
		if w.volume() != nil {
			t.Error("data that nobody has acknowledged is published")
		}
	})
}

// TestAcknowledgementOfUnknownData: of a disk that was never a volume, by its identity and for
// as long as it stays attached.
func TestAcknowledgementOfUnknownData(t *testing.T) {
	other := func(identity disk.Identity, attachment disk.Attachment) func(*env) {
		return func(w *env) {
			f := fact("disk1")
			f.Identity, f.Attachment = identity, attachment
			w.disks.put(f)
			w.disks.write(identity, "data")
		}
	}
	for name, test := range map[string]struct {
		change func(*env)
		want   string
	}{
		"it is published with its data":         {func(*env) {}, "Pending"},
		"not the next disk in the slot":         {other("fs:other:/", "boot1/mount:1"), "Skipped: NotEmpty"},
		"not the same disk, when it comes back": {other(fact("disk1").Identity, "boot1/mount:2"), "Skipped: NotEmpty"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				identity := w.disks.add("disk1", "data")
				w.start()
				w.pass(time.Minute)
				w.expect("disk1", "Skipped: NotEmpty")
				acknowledgement := entryOf(w.provisioner, "disk1").Acknowledgement
				if want := string(identity) + "/boot1/mount:1"; acknowledgement != want {
					t.Fatalf("the report says %q, want %q", acknowledgement, want)
				}
				test.change(w)
				w.look()
				w.annotate(wellknown.PublishRetainedAnnotation, acknowledgement)
				w.pass(reportRecheck + progressPause + time.Minute)
				w.expect("disk1", test.want)
				if got := w.disks.cleaned(); len(got) > 0 || w.disks.read(identity) != "data" {
					t.Errorf("cleaned %q, data %q", got, w.disks.read(identity))
				}
			})
		})
	}
}

// TestAcknowledgementOfASuccessor: it names the disk that is here, so the next disk without a
// name is not published by it.
func TestAcknowledgementOfASuccessor(t *testing.T) {
	inBubble(t, func(w *env) {
		next := func(identity disk.Identity) {
			f := fact("disk1")
			f.Kind, f.Device, f.Identity, f.Attachment = disk.Device, "/dev/"+string(identity), identity, disk.Attachment(identity)
			w.disks.put(f)
			w.disks.write(identity, "data")
		}
		f := fact("disk1")
		record := disk.Record{
			Identity: "weak:boot1:1", Key: f.Key, HostPath: f.HostPath, Kind: disk.Device, Mode: disk.Filesystem, Cluster: cluster,
			State: disk.Published, Volume: "local-pv-0", UID: "u", Generation: 7, Policy: disk.Delete, Phase: disk.PhaseBound,
		}
		if err := w.records.Put(record); err != nil {
			t.Fatal(err)
		}
		next("weak:boot1:2")
		w.start()
		w.pass(time.Minute)
		w.expect("disk1", "Skipped: IdentityUnproven")
		acknowledgement := entryOf(w.provisioner, "disk1").Acknowledgement
		w.disks.take("disk1")
		next("weak:boot1:3")
		w.look()
		w.annotate(wellknown.PublishRetainedAnnotation, acknowledgement)
		w.pass(time.Hour)
		w.expect("disk1", "Skipped: IdentityUnproven")
		if w.volume() != nil {
			t.Error("the next disk is published by the acknowledgement of the one before")
		}
		w.annotate(wellknown.PublishRetainedAnnotation, entryOf(w.provisioner, "disk1").Acknowledgement)
		w.pass(time.Minute)
		if w.volume() == nil || w.disks.read("weak:boot1:3") != "data" {
			t.Errorf("acknowledged: volume %v over data %q", w.volume(), w.disks.read("weak:boot1:3"))
		}
	})
}
