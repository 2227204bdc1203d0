// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// tombstoneOf is a tombstone of a disk, of another node's volume.
func tombstoneOf(identity disk.Identity, state stowage.TombstoneState) stowage.Tombstone {
	return stowage.Tombstone{
		Identity: string(identity), Class: "fast", Name: "disk7", Volume: "local-pv-n2", VolumeUID: "uid-n2", Generation: 3, State: state,
	}
}

// addTombstone adds a tombstone of a disk, of another node.
func (e *env) addTombstone(identity disk.Identity, state stowage.TombstoneState) {
	e.tombstones.add("n2", tombstoneOf(identity, state))
}

// addToReport adds a tombstone to the report of another node, as an earlier version of the controller did.
func (e *env) addToReport(tombstone stowage.Tombstone) {
	e.reports.mu.Lock()
	defer e.reports.mu.Unlock()
	e.reports.put(&stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{wellknown.TombstonesLabel: wellknown.TombstonesValue}},
		Spec:       stowage.LocalDiskReportSpec{NodeName: "n2", Page: 1, Tombstones: []stowage.Tombstone{tombstone}},
	})
}

// TestDiskOfALostVolume: a disk of a lost node is cleaned before it is published, whatever
// the existingData of its class.
func TestDiskOfALostVolume(t *testing.T) {
	for name, set := range map[string]func(*env){
		"by default": func(*env) {},
		"where unknown data is published": func(e *env) {
			configure(e.config, func(c *provisioner.Class) { c.ExistingData = "Publish" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				set(e)
				identity := e.disks.add("disk1", "of the first user")
				e.addTombstone(identity, stowage.TombstonePublished)
				e.start()
				e.pass(time.Minute)
				pv := e.volume()
				if pv == nil || e.disks.read(identity) != "" {
					t.Fatalf("volume %v over data %q, want one over none", pv, e.disks.read(identity))
				}
				if pv.Name == "local-pv-n2" || localpv.GenerationOf(pv) <= 4 {
					t.Errorf("volume %s has generation %d, which a former one may have had", pv.Name, localpv.GenerationOf(pv))
				}
			})
		})
	}
}

// TestTombstoneInAReport: a tombstone that an earlier version wrote into a report is found there,
// and in its object if the controller moves it between the two lists.
func TestTombstoneInAReport(t *testing.T) {
	for name, moved := range map[string]bool{"not moved yet": false, "moved meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				identity := e.disks.add("disk1", "of the first user")
				tombstone := tombstoneOf(identity, stowage.TombstonePublished)
				if moved {
					e.reports.listed = func() {
						e.tombstones.add("n2", tombstone)
						e.reports.listed = nil
					}
				} else {
					e.addToReport(tombstone)
				}
				e.start()
				e.pass(time.Minute)
				if pv := e.volume(); pv == nil || e.disks.read(identity) != "" {
					t.Errorf("volume %v over data %q, want one over none", pv, e.disks.read(identity))
				}
			})
		})
	}
}

// TestRetainingNodeHasPrecedence: of two nodes that had the disk, the one that retains its data.
func TestRetainingNodeHasPrecedence(t *testing.T) {
	for name, first := range map[string]stowage.TombstoneState{"listed first": stowage.TombstoneRetained, "listed last": stowage.TombstonePublished} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				identity := e.disks.add("disk1", "of the first user")
				second := map[stowage.TombstoneState]stowage.TombstoneState{
					stowage.TombstoneRetained: stowage.TombstonePublished, stowage.TombstonePublished: stowage.TombstoneRetained,
				}[first]
				e.addTombstone(identity, first)
				e.tombstones.add("n3", tombstoneOf(identity, second))
				e.start()
				e.pass(time.Minute)
				e.expect("disk1", "Retained: RetainedDirty")
			})
		})
	}
}

// TestDiskThatWasRetainedElsewhere: the disk is neither cleaned nor published.
func TestDiskThatWasRetainedElsewhere(t *testing.T) {
	inBubble(t, func(e *env) {
		configure(e.config, func(c *provisioner.Class) { c.ExistingData = "Clean" })
		identity := e.disks.add("disk1", "of the first user")
		e.addTombstone(identity, stowage.TombstoneRetained)
		e.start()
		e.pass(time.Minute)
		if pv := e.volume(); pv != nil || e.disks.read(identity) == "" {
			t.Errorf("volume %v over data %q, want none over what was there", pv, e.disks.read(identity))
		}
		e.expect("disk1", "Retained: RetainedDirty")
	})
}

// TestOwnRecordWins: this node's record of a disk has precedence over a tombstone.
func TestOwnRecordWins(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.start()
		e.phase(corev1.VolumeAvailable)
		first := e.volume()
		e.disks.write(identity, "of its user")
		e.phase(corev1.VolumeBound)
		e.addTombstone(identity, stowage.TombstonePublished)
		e.start()
		e.pass(time.Minute)
		if pv := e.volume(); pv == nil || pv.UID != first.UID || e.disks.read(identity) == "" {
			t.Errorf("volume %v over data %q, want the first one over its data", pv, e.disks.read(identity))
		}
	})
}

// detachDisk detaches a disk with a free volume, which is removed.
func (e *env) detachDisk(name string) disk.Identity {
	e.t.Helper()
	identity := e.disks.add(name, "")
	e.start()
	e.phase(corev1.VolumeAvailable)
	e.disks.take(name)
	e.look()
	e.pass(time.Minute)
	if pv := e.volume(); pv != nil {
		e.t.Fatalf("volume %s still exists", pv.Name)
	}
	return identity
}

// reattachDisk attaches the disk again with data of another node.
func (e *env) reattachDisk(name string, identity disk.Identity) {
	e.t.Helper()
	e.disks.put(fact(name))
	e.disks.write(identity, "of its user")
	e.look()
	e.pass(time.Minute)
}

// TestDiskBackFromALostNode: the node had the disk before; another node was lost with it since,
// where its volume had policy Retain.
func TestDiskBackFromALostNode(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.detachDisk("disk1")
		e.addTombstone(identity, stowage.TombstoneRetained)
		e.reattachDisk("disk1", identity)
		if pv := e.volume(); pv != nil || e.disks.read(identity) == "" {
			t.Errorf("volume %v over data %q, want none over what was there", pv, e.disks.read(identity))
		}
		e.expect("disk1", "Retained: RetainedDirty")
	})
}

// TestDiskOfAnotherNode: the node had the disk before, and another node has a volume of it
// now. It is left alone until that volume is removed.
func TestDiskOfAnotherNode(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.detachDisk("disk1")
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
		if _, err := e.api.CoreV1().PersistentVolumes().Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.reattachDisk("disk1", identity)
		e.pass(time.Hour)
		if got := e.disks.read(identity); got == "" {
			t.Error("the data of a volume of another node was cleaned")
		}
		e.expect("disk1", "Skipped: OtherNodesVolume")
		e.api.count("list persistentvolumes")
		e.pass(24 * time.Hour)
		if n := e.api.count("list persistentvolumes"); n > 24*60/15 {
			t.Errorf("all volumes were listed %d times in a day", n)
		}
		if err := e.api.CoreV1().PersistentVolumes().Delete(t.Context(), theirs.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.pass(time.Hour)
		e.expect("disk1", "Retained: VolumeVanished")
		if got := e.disks.read(identity); got == "" || e.volume() != nil {
			t.Errorf("data %q, volume %v: want data that this node did not write to be kept", got, e.volume())
		}
	})
}

// TestTombstonesCannotBeListed: nothing is published before they can be listed.
func TestTombstonesCannotBeListed(t *testing.T) {
	for name, unlisted := range map[string]func(*env) (*sync.Mutex, *bool){
		"reports":    func(e *env) (*sync.Mutex, *bool) { return &e.reports.mu, &e.reports.unlisted },
		"tombstones": func(e *env) (*sync.Mutex, *bool) { return &e.tombstones.mu, &e.tombstones.unlisted },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.disks.add("disk1", "")
				mu, fails := unlisted(e)
				*fails = true
				e.start()
				e.pass(time.Minute)
				if pv := e.volume(); pv != nil {
					t.Errorf("volume %s was published", pv.Name)
				}
				mu.Lock()
				*fails = false
				mu.Unlock()
				e.pass(5 * time.Minute)
				if e.volume() == nil {
					t.Error("no volume was published")
				}
			})
		})
	}
}
