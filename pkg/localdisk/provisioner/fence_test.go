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

// device is a good device.
func device(name string) disk.Fact {
	f := fact(name)
	f.Kind, f.Device, f.FilesystemType = disk.Device, "/dev/"+name, ""
	f.Identity, f.Place = disk.Identity("wwn:"+name), "dev:8:"+name
	return f
}

// mounted is a device that kubelet has mounted.
func mounted(name string) disk.Fact {
	f := device(name)
	f.Overlaps = []string{"fs:8:" + name + ":/"}
	return f
}

// linked checks the links there are.
func (e *env) linked(want ...string) {
	e.t.Helper()
	var got []string
	for link, target := range e.disks.linked() {
		if pv := e.volume(); pv != nil && pv.Spec.Local.Path != link {
			e.t.Errorf("there is the link %s, and the volume's is %s", link, pv.Spec.Local.Path)
		}
		got = append(got, target)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		e.t.Errorf("the links lead elsewhere: %s", diff)
	}
}

var formatted = disk.Superblock{Format: disk.Format{Type: "ext4", UUID: "u1"}}

// TestFence follows the link of a device through the volume's life.
func TestFence(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.put(device("a"))
		w.start()
		w.expect("a", "Pending")
		pv := w.volume()
		if got := []string{pv.Spec.Local.Path, pv.Annotations[wellknown.DiskPathAnnotation]}; !strings.HasPrefix(got[0], "/dev/stowage/disks/fast/local-pv-") || got[1] != folder+"/a" {
			t.Errorf("path and slot of the volume are %q", got)
		}
		w.linked("/dev/a")

		w.phase(corev1.VolumeBound)
		w.linked("/dev/a")
		w.disks.format("wwn:a", formatted)
		w.disks.put(mounted("a"))
		w.look()
		w.linked("/dev/a")
		record, _, err := w.records.Get("wwn:a")
		if err != nil || record.Filesystem == nil || *record.Filesystem != formatted.Format {
			t.Errorf("the record says %v (%v), want the file system that kubelet made", record.Filesystem, err)
		}

		w.disks.put(device("a"))
		w.disks.format("wwn:a", disk.Superblock{})
		w.look()
		w.linked()
		w.expect("a", "Bound: SignatureLost")
		if events := strings.Join(w.events.take(), "\n"); !strings.Contains(events, "Warning SignatureLost: the device held ext4:u1 and holds no file system now") {
			t.Errorf("the events are\n%s", events)
		}
		w.disks.format("wwn:a", formatted)
		w.pass(fencePeriod)
		w.linked("/dev/a")
		w.expect("a", "Bound")

		w.phase(corev1.VolumeReleased)
		w.linked("/dev/a")
		if again := w.volume(); again.UID == pv.UID || again.Spec.Local.Path == "" {
			t.Error("the volume was not published again")
		}
	})
}

// TestFenceWithoutEvents: what happens to a device that is bound and not mounted is seen
// within fencePeriod.
func TestFenceWithoutEvents(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.put(device("a"))
		w.start()
		w.disks.format("wwn:a", formatted)
		w.phase(corev1.VolumeBound)
		w.pass(time.Hour)
		w.linked("/dev/a")
		w.disks.format("wwn:a", disk.Superblock{})
		w.pass(fencePeriod)
		w.linked()
	})
}

// TestFenceAfterRestart: links of earlier are removed before anything is known, and come
// back only for what is proven.
func TestFenceAfterRestart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *env)
		want   []string
	}{
		"nothing has happened":      {func(*env) {}, []string{"/dev/a"}},
		"the superblock was zeroed": {func(w *env) { w.disks.format("wwn:a", disk.Superblock{}) }, nil},
		"the disk is another one": {func(w *env) {
			f := device("a")
			f.Identity = "wwn:b"
			w.disks.put(f)
			w.disks.format("wwn:b", formatted)
		}, nil},
		"the disk does not answer":       {func(w *env) { w.disks.hang("wwn:a") }, nil},
		"the disk answers with an error": {func(w *env) { w.disks.fail("wwn:a", disk.Problemf(disk.Unreadable, "EIO")) }, nil},
		"the disk has another name": {func(w *env) {
			f := device("a")
			f.Device = "/dev/c"
			w.disks.put(f)
		}, []string{"/dev/c"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				w.disks.put(device("a"))
				w.start()
				w.disks.format("wwn:a", formatted)
				w.phase(corev1.VolumeBound)
				w.linked("/dev/a")
				w.stop()
				test.change(w)
				w.start()
				w.pass(time.Minute)
				w.linked(test.want...)
				w.disks.free()
			})
		})
	}
}

// TestFenceAccepted: an administrator has given the file system another UUID.
func TestFenceAccepted(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.put(device("a"))
		w.start()
		w.disks.format("wwn:a", formatted)
		w.phase(corev1.VolumeBound)
		w.disks.format("wwn:a", disk.Superblock{Format: disk.Format{Type: "ext4", UUID: "u2"}})
		w.pass(fencePeriod)
		w.linked()
		w.expect("a", "Bound: FilesystemChanged")
		w.change(func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.SameFilesystemAnnotation] = "ext4:u2" })
		w.linked("/dev/a")
		w.expect("a", "Bound")
	})
}

// TestFenceWhileCleaning: nobody can mount a device that is being cleaned.
func TestFenceWhileCleaning(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.put(device("a"))
		w.start()
		w.phase(corev1.VolumeBound)
		w.linked("/dev/a")
		w.disks.hang("wwn:a")
		w.phase(corev1.VolumeReleased)
		w.linked()
		w.disks.free()
	})
}

// TestFenceForceRemoved: the finalizer of a volume was removed by hand.
func TestFenceForceRemoved(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.put(device("a"))
		w.start()
		w.phase(corev1.VolumeBound)
		w.linked("/dev/a")
		link := w.volume().Spec.Local.Path
		w.remove()
		if pv := w.volume(); pv != nil && pv.DeletionTimestamp != nil {
			w.change(func(pv *corev1.PersistentVolume) { pv.Finalizers = nil })
		}
		if target, found := w.disks.linked()[link]; found {
			t.Errorf("the link of the volume that is gone leads to %s", target)
		}
	})
}
