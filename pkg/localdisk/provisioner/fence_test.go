// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// device returns a device without problems.
func device(name string) disk.Fact {
	f := fact(name)
	f.Kind, f.Device, f.FilesystemType = disk.Device, "/dev/"+name, ""
	f.Identity, f.Place = disk.Identity("wwn:"+name), "dev:8:"+name
	return f
}

// mounted returns a device that kubelet has mounted.
func mounted(name string) disk.Fact {
	f := device(name)
	f.Overlaps = []string{"fs:8:" + name + ":/"}
	return f
}

// linked checks the links.
func (e *env) linked(want ...string) {
	e.t.Helper()
	var got []string
	for link, target := range e.disks.linked() {
		if pv := e.volume(); pv != nil && pv.Spec.Local.Path != link {
			e.t.Errorf("found link %s, want the volume's, %s", link, pv.Spec.Local.Path)
		}
		got = append(got, target)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		e.t.Errorf("targets of the links: %s", diff)
	}
}

var formatted = disk.Superblock{Format: disk.Format{Type: "ext4", UUID: "u1"}}

// TestFence checks the link of a device in each state of its volume.
func TestFence(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.put(device("a"))
		e.start()
		e.expect("a", "Pending")
		pv := e.volume()
		if got := []string{pv.Spec.Local.Path, pv.Annotations[wellknown.DiskPathAnnotation]}; !strings.HasPrefix(got[0], "/dev/stowage/disks/fast/local-pv-") || got[1] != folder+"/a" {
			t.Errorf("path and slot of the volume are %q", got)
		}
		e.linked("/dev/a")

		e.phase(corev1.VolumeBound)
		e.linked("/dev/a")
		e.disks.format("wwn:a", formatted)
		e.disks.put(mounted("a"))
		e.look()
		e.linked("/dev/a")
		record, _, err := e.records.Get("wwn:a")
		if err != nil || record.Filesystem == nil || *record.Filesystem != formatted.Format {
			t.Errorf("the record has file system %v (%v), want the one that kubelet created", record.Filesystem, err)
		}

		e.disks.put(device("a"))
		e.disks.format("wwn:a", disk.Superblock{})
		e.look()
		e.linked()
		e.expect("a", "Bound: SignatureLost")
		if events := strings.Join(e.events.take(), "\n"); !strings.Contains(events, "Warning SignatureLost: the device held ext4:u1 and holds no file system now") {
			t.Errorf("the events are\n%s", events)
		}
		e.disks.format("wwn:a", formatted)
		e.pass(fencePeriod)
		e.linked("/dev/a")
		e.expect("a", "Bound")

		renamed := device("a")
		renamed.Device, renamed.Place = "/dev/c", "dev:8:c"
		e.disks.put(renamed)
		e.look()
		e.linked("/dev/c")

		e.phase(corev1.VolumeReleased)
		e.linked("/dev/c")
		if again := e.volume(); again.UID == pv.UID || again.Spec.Local.Path == "" {
			t.Error("the volume was not published again")
		}
	})
}

// TestFenceWithoutEvents: changes to a device that is bound and not mounted are detected within
// fencePeriod.
func TestFenceWithoutEvents(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.put(device("a"))
		e.start()
		e.disks.format("wwn:a", formatted)
		e.phase(corev1.VolumeBound)
		e.pass(time.Hour)
		e.linked("/dev/a")
		e.disks.format("wwn:a", disk.Superblock{})
		e.pass(fencePeriod)
		e.linked()
	})
}

// TestFenceAfterRestart: links of the former provisioner are removed at the start, and added
// again for verified devices only.
func TestFenceAfterRestart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(e *env)
		want   []string
	}{
		"nothing has happened":      {func(*env) {}, []string{"/dev/a"}},
		"the superblock was zeroed": {func(e *env) { e.disks.format("wwn:a", disk.Superblock{}) }, nil},
		"the disk is another one": {func(e *env) {
			f := device("a")
			f.Identity = "wwn:b"
			e.disks.put(f)
			e.disks.format("wwn:b", formatted)
		}, nil},
		"the disk does not answer":       {func(e *env) { e.disks.hang("wwn:a") }, nil},
		"the disk answers with an error": {func(e *env) { e.disks.fail("wwn:a", disk.Problemf(disk.Unreadable, "EIO")) }, nil},
		"the disk has another name": {func(e *env) {
			f := device("a")
			f.Device = "/dev/c"
			e.disks.put(f)
		}, []string{"/dev/c"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.disks.put(device("a"))
				e.start()
				e.disks.format("wwn:a", formatted)
				e.phase(corev1.VolumeBound)
				e.linked("/dev/a")
				e.stop()
				test.change(e)
				e.start()
				e.pass(time.Minute)
				e.linked(test.want...)
				e.disks.free()
			})
		})
	}
}

// TestFenceAccepted: an administrator has given the file system another UUID.
func TestFenceAccepted(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.put(device("a"))
		e.start()
		e.disks.format("wwn:a", formatted)
		e.phase(corev1.VolumeBound)
		e.disks.format("wwn:a", disk.Superblock{Format: disk.Format{Type: "ext4", UUID: "u2"}})
		e.pass(fencePeriod)
		e.linked()
		e.expect("a", "Bound: FilesystemChanged")
		e.change(func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.SameFilesystemAnnotation] = "ext4:u2" })
		e.linked("/dev/a")
		e.expect("a", "Bound")
	})
}

// TestFenceWhileCleaning: a device that is being cleaned cannot be mounted.
func TestFenceWhileCleaning(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.put(device("a"))
		e.start()
		e.phase(corev1.VolumeBound)
		e.linked("/dev/a")
		e.disks.hang("wwn:a")
		e.phase(corev1.VolumeReleased)
		e.linked()
		e.disks.free()
	})
}

// TestFenceForceRemoved: the finalizer of a volume was removed by hand.
func TestFenceForceRemoved(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.put(device("a"))
		e.start()
		e.phase(corev1.VolumeBound)
		e.linked("/dev/a")
		link := e.volume().Spec.Local.Path
		e.remove()
		if pv := e.volume(); pv != nil && pv.DeletionTimestamp != nil {
			e.change(func(pv *corev1.PersistentVolume) { pv.Finalizers = nil })
		}
		if target, found := e.disks.linked()[link]; found {
			t.Errorf("the link of the removed volume has target %s", target)
		}
	})
}
