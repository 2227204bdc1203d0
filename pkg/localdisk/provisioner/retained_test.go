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
	"stowage.dev/stowage/pkg/localdisk/provisioner/status"
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

// useAndRelease binds and releases the only volume, with data.
func (e *env) useAndRelease(data string) {
	e.t.Helper()
	e.phase(corev1.VolumeAvailable)
	e.phase(corev1.VolumeBound)
	for identity := range e.disks.data {
		e.disks.write(identity, data)
	}
	e.phase(corev1.VolumeReleased)
}

// TestRetainedDiskIsInspectedAgain: a disk that was empty when it was published is
// inspected again after its volume was removed.
func TestRetainedDiskIsInspectedAgain(t *testing.T) {
	inBubble(t, func(e *env) {
		e.retain()
		identity := e.disks.add("disk1", "")
		e.start()
		e.useAndRelease("of the first user")
		e.remove()
		e.pass(10 * time.Minute)
		if pv := e.volume(); pv != nil {
			t.Errorf("volume %s offers a retained disk that holds data %q", pv.Name, e.disks.read(identity))
		}
		e.expect("disk1", "Retained: RetainedDirty")

		e.disks.write(identity, "") // by an administrator
		e.pass(10 * time.Minute)
		if e.volume() == nil {
			t.Errorf("a retained disk that was emptied is not published")
		}
	})
}

// TestAcknowledgedData: an acknowledgement is valid for one retention only.
func TestAcknowledgedData(t *testing.T) {
	inBubble(t, func(e *env) {
		e.retain()
		identity := e.disks.add("disk1", "")
		e.start()
		e.useAndRelease("of the first user")
		first := e.volume()
		e.remove()
		e.pass(time.Minute)
		e.expect("disk1", "Retained: RetainedDirty")

		e.reports.mu.Lock()
		e.reports.known[node].Annotations = map[string]string{
			wellknown.PublishRetainedAnnotation: "x/y, " + string(identity) + "/" + string(first.UID) + ",",
		}
		e.reports.mu.Unlock()
		e.pass(retainedRecheckLast + 2*time.Second)
		second := e.volume()
		if second == nil || second.Name == first.Name {
			t.Fatalf("after the acknowledgement the volume is %v, want another than %s", second, first.Name)
		}
		e.useAndRelease("of the second user")
		e.remove()
		e.pass(10 * time.Minute)
		if e.volume() != nil {
			t.Error("data that was not acknowledged is published")
		}
	})
}

// TestAcknowledgementOfUnknownData: the data of a disk that was never a volume is
// acknowledged by its identity, for as long as it stays attached.
func TestAcknowledgementOfUnknownData(t *testing.T) {
	other := func(identity disk.Identity, attachment disk.Attachment) func(*env) {
		return func(e *env) {
			f := fact("disk1")
			f.Identity, f.Attachment = identity, attachment
			e.disks.put(f)
			e.disks.write(identity, "data")
		}
	}
	for name, test := range map[string]struct {
		change func(*env)
		want   string
	}{
		"it is published with its data":            {func(*env) {}, "Pending"},
		"not the next disk in the slot":            {other("fs:other:/", "boot1/mount:1"), "Skipped: NotEmpty"},
		"not the same disk, after it was detached": {other(fact("disk1").Identity, "boot1/mount:2"), "Skipped: NotEmpty"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				identity := e.disks.add("disk1", "data")
				e.start()
				e.pass(time.Minute)
				e.expect("disk1", "Skipped: NotEmpty")
				acknowledgement := entryOf(e.provisioner, "disk1").Acknowledgement
				if want := string(identity) + "/boot1/mount:1"; acknowledgement != want {
					t.Fatalf("the acknowledgement is %q, want %q", acknowledgement, want)
				}
				test.change(e)
				e.look()
				e.annotate(wellknown.PublishRetainedAnnotation, acknowledgement)
				e.pass(status.RecheckInterval + status.ProgressInterval + time.Minute)
				e.expect("disk1", test.want)
				if got := e.disks.cleaned(); len(got) > 0 || e.disks.read(identity) != "data" {
					t.Errorf("cleaned %q, data %q", got, e.disks.read(identity))
				}
			})
		})
	}
}

// TestAcknowledgementOfASuccessor: it names the attached disk, so the next disk without an
// identity is not published by it.
func TestAcknowledgementOfASuccessor(t *testing.T) {
	inBubble(t, func(e *env) {
		next := func(identity disk.Identity) {
			f := fact("disk1")
			f.Kind, f.Device, f.Identity, f.Attachment = disk.Device, "/dev/"+string(identity), identity, disk.Attachment(identity)
			e.disks.put(f)
			e.disks.write(identity, "data")
		}
		f := fact("disk1")
		record := disk.Record{
			Identity: "weak:boot1:1", Key: f.Key, HostPath: f.HostPath, Kind: disk.Device, Mode: disk.Filesystem, Cluster: cluster,
			State: disk.Published, Volume: "local-pv-0", UID: "u", Generation: 7, Policy: disk.Delete, Phase: disk.PhaseBound,
		}
		if err := e.records.Put(record); err != nil {
			t.Fatal(err)
		}
		next("weak:boot1:2")
		e.start()
		e.pass(time.Minute)
		e.expect("disk1", "Skipped: IdentityUnproven")
		acknowledgement := entryOf(e.provisioner, "disk1").Acknowledgement
		e.disks.take("disk1")
		next("weak:boot1:3")
		e.look()
		e.annotate(wellknown.PublishRetainedAnnotation, acknowledgement)
		e.pass(time.Hour)
		e.expect("disk1", "Skipped: IdentityUnproven")
		if e.volume() != nil {
			t.Error("the next disk is published by the acknowledgement of the former one")
		}
		e.annotate(wellknown.PublishRetainedAnnotation, entryOf(e.provisioner, "disk1").Acknowledgement)
		e.pass(time.Minute)
		if e.volume() == nil || e.disks.read("weak:boot1:3") != "data" {
			t.Errorf("acknowledged: volume %v over data %q", e.volume(), e.disks.read("weak:boot1:3"))
		}
	})
}
