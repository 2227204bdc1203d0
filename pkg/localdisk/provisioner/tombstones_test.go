// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// lose has the report of another node say that the volume of a disk was lost there.
func (e *env) addTombstone(identity disk.Identity, state stowage.TombstoneState) {
	e.t.Helper()
	e.reports.mu.Lock()
	defer e.reports.mu.Unlock()
	e.reports.put(&stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{wellknown.TombstonesLabel: wellknown.TombstonesValue}},
		Spec: stowage.LocalDiskReportSpec{NodeName: "n2", Page: 1, Tombstones: []stowage.Tombstone{{
			Identity: string(identity), Class: "fast", Name: "disk7", Volume: "local-pv-n2", VolumeUID: "uid-n2", Generation: 3, State: state,
		}}},
	})
}

// TestDiskOfALostVolume: a disk that comes from a node that was lost is cleaned before
// it is published, whatever the class says about data that nobody knows.
func TestDiskOfALostVolume(t *testing.T) {
	for name, set := range map[string]func(*env){
		"by default": func(*env) {},
		"where unknown data is published": func(w *env) {
			w.config.Classes[0].ExistingData = "Publish"
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				set(w)
				identity := w.disks.add("disk1", "of the first user")
				w.addTombstone(identity, stowage.TombstonePublished)
				w.start()
				w.pass(time.Minute)
				pv := w.volume()
				if pv == nil || w.disks.read(identity) != "" {
					t.Fatalf("volume %v over data %q, want one over none", pv, w.disks.read(identity))
				}
				if pv.Name == "local-pv-n2" || localpv.GenerationOf(pv) <= 4 {
					t.Errorf("volume %s has generation %d, which one before it may have had", pv.Name, localpv.GenerationOf(pv))
				}
			})
		})
	}
}

// TestDiskThatWasRetainedElsewhere is neither cleaned nor published.
func TestDiskThatWasRetainedElsewhere(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.Classes[0].ExistingData = "Clean"
		identity := w.disks.add("disk1", "of the first user")
		w.addTombstone(identity, stowage.TombstoneRetained)
		w.start()
		w.pass(time.Minute)
		if pv := w.volume(); pv != nil || w.disks.read(identity) == "" {
			t.Errorf("volume %v over data %q, want none over what was there", pv, w.disks.read(identity))
		}
		w.expect("disk1", "Retained: RetainedDirty")
	})
}

// TestOwnRecordWins: what this node knows of a disk says more than a tombstone.
func TestOwnRecordWins(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.start()
		w.phase(corev1.VolumeAvailable)
		first := w.volume()
		w.disks.write(identity, "of its user")
		w.phase(corev1.VolumeBound)
		w.addTombstone(identity, stowage.TombstonePublished)
		w.start()
		w.pass(time.Minute)
		if pv := w.volume(); pv == nil || pv.UID != first.UID || w.disks.read(identity) == "" {
			t.Errorf("volume %v over data %q, want the first one over its data", pv, w.disks.read(identity))
		}
	})
}

// away has a free disk of this node go away, and takes its volume with it.
func (e *env) detachDisk(name string) disk.Identity {
	e.t.Helper()
	identity := e.disks.add(name, "")
	e.start()
	e.phase(corev1.VolumeAvailable)
	e.disks.take(name)
	e.look()
	e.pass(time.Minute)
	if pv := e.volume(); pv != nil {
		e.t.Fatalf("volume %s is still there", pv.Name)
	}
	return identity
}

// back has it come back with somebody's data.
func (e *env) reattachDisk(name string, identity disk.Identity) {
	e.t.Helper()
	e.disks.put(fact(name))
	e.disks.write(identity, "of its user")
	e.look()
	e.pass(time.Minute)
}

// TestDiskBackFromALostNode: the node had the disk once, and another one was lost with it
// since, by whose volume's policy it is to be kept.
func TestDiskBackFromALostNode(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.detachDisk("disk1")
		w.addTombstone(identity, stowage.TombstoneRetained)
		w.reattachDisk("disk1", identity)
		if pv := w.volume(); pv != nil || w.disks.read(identity) == "" {
			t.Errorf("volume %v over data %q, want none over what was there", pv, w.disks.read(identity))
		}
		w.expect("disk1", "Retained: RetainedDirty")
	})
}

// TestDiskOfAnotherNode: the node had the disk once, and another one has a volume of it
// now. It is left alone until that volume is gone.
func TestDiskOfAnotherNode(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.detachDisk("disk1")
		theirs := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "local-pv-n2", UID: "uid-n2",
				Labels: map[string]string{wellknown.NodeLabel: localpv.NodeHash("n2")},
				Annotations: map[string]string{
					wellknown.NodeNameAnnotation: "n2", wellknown.DiskIdentityAnnotation: string(identity), localpv.ProvisionedByAnnotation: localpv.ProvisionedBy("n2"),
				},
			},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName:       "fast",
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder + "/disk7"}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		}
		if _, err := w.api.CoreV1().PersistentVolumes().Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.reattachDisk("disk1", identity)
		w.pass(time.Hour)
		if got := w.disks.read(identity); got == "" {
			t.Error("the data of a volume of another node was cleaned away")
		}
		w.expect("disk1", "Skipped: OtherNodesVolume")
		w.api.count("list persistentvolumes")
		w.pass(24 * time.Hour)
		if n := w.api.count("list persistentvolumes"); n > 24*60/15 {
			t.Errorf("all volumes were listed %d times in a day", n)
		}
		if err := w.api.CoreV1().PersistentVolumes().Delete(t.Context(), theirs.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		w.expect("disk1", "Retained: VolumeVanished")
		if got := w.disks.read(identity); got == "" || w.volume() != nil {
			t.Errorf("data %q, volume %v: want data that this node did not write to be kept", got, w.volume())
		}
	})
}

// TestTombstonesThatCannotBeAskedFor: nothing is published before they can.
func TestTombstonesCannotBeListed(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.reports.unlisted = true
		w.start()
		w.pass(time.Minute)
		if pv := w.volume(); pv != nil {
			t.Errorf("volume %s was published", pv.Name)
		}
		w.reports.mu.Lock()
		w.reports.unlisted = false
		w.reports.mu.Unlock()
		w.pass(5 * time.Minute)
		if w.volume() == nil {
			t.Error("no volume was published")
		}
	})
}
