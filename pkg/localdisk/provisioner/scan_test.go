// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestRemountOnABusyNode: where something is mounted every moment, the scans that this
// causes must not remove a disk that is missing for a moment only.
func TestRemountOnABusyNode(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.start()
		e.phase(corev1.VolumeAvailable)
		first := e.volume().UID
		e.disks.take("disk1")
		for range 40 {
			e.provisioner.scanner.Request()
			e.pass(100 * time.Millisecond)
		}
		e.disks.put(fact("disk1"))
		e.look()
		if pv := e.volume(); pv == nil || pv.UID != first || pv.DeletionTimestamp != nil {
			t.Errorf("a disk was missing for four seconds, and its volume is %v", pv)
		}
		e.disks.take("disk1")
		for range 80 {
			e.provisioner.scanner.Request()
			e.pass(100 * time.Millisecond)
		}
		if pv := e.volume(); pv != nil {
			t.Errorf("a disk is missing for eight seconds, and its volume still exists: %v", pv)
		}
	})
}

// TestScanBudget: where something is mounted every moment, scans take a small share of the time in
// the long run; a burst is not limited.
func TestScanBudget(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.slow = 100 * time.Millisecond
		e.start()
		for _, most := range []int{125, 65, 65} { // in a minute each
			e.disks.looked()
			for range 600 {
				e.provisioner.scanner.Request()
				e.pass(100 * time.Millisecond)
			}
			if looks := e.disks.looked(); looks < most/2 || looks > most {
				t.Errorf("%d scans in a minute, of 0.1 s each, want %d to %d", looks, most/2, most)
			}
		}
	})
}

// TestRemovedClass: its disks are not reported any more, and their volumes are kept.
func TestRemovedClass(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.disks.add("disk2", "data")
		e.start()
		e.expect("disk2", "Skipped: NotEmpty")
		config := *e.config
		config.Classes = nil
		e.disks.take("disk1") // the class is not scanned
		e.disks.take("disk2")
		e.provisioner.Configure(context.Background(), &config)
		e.pass(time.Hour)
		e.expect("disk1", "Pending: NotConfigured")
		e.expect("disk2", "not reported")
		if e.volume() == nil {
			t.Error("the volume of a removed class was removed")
		}
	})
}

// TestClassRemovedDuringClean: a running clean keeps its configuration.
func TestClassRemovedDuringClean(t *testing.T) {
	inBubble(t, func(e *env) {
		until := make(chan struct{})
		e.disks.during = func(context.Context, disk.CleanRequest, func(disk.Progress) error) error {
			<-until
			return nil
		}
		e.released("disk1", "disk2", "disk3")
		config := *e.config
		config.Classes = nil
		e.provisioner.Configure(context.Background(), &config)
		e.pass(time.Minute)
		close(until)
		e.pass(time.Minute)
		for name := range e.disks.facts {
			if data := e.disks.read(fact(name).Identity); data != "" {
				t.Errorf("%s holds data %q", name, data)
			}
		}
		if got := e.api.volumes(); len(got) > 0 {
			t.Errorf("%d volumes of clean disks are left", len(got))
		}
	})
}

// TestDiskThatMoves: the disk of a volume is found at another path, and is cleaned and
// published there as soon as that volume is removed.
func TestDiskThatMoves(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.startBound()
		moved := fact("disk2")
		moved.Identity = identity
		e.disks.take("disk1")
		e.disks.put(moved)
		e.look()
		e.pass(time.Minute)
		e.expect("disk1", "Missing: Missing")
		e.expect("disk2", "Skipped: SameBytes")
		e.change(func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased })
		e.remove()
		e.pass(time.Minute)
		pv := e.volume()
		if pv == nil || pv.Spec.Local.Path != moved.HostPath {
			t.Errorf("the volume is %v, want one at %s", pv, moved.HostPath)
		}
	})
}

// TestErrorsThatEnd: questions that failed are asked again without an event.
func TestErrorsThatEnd(t *testing.T) {
	for _, reason := range []disk.Reason{disk.MountMissing, disk.Missing, disk.Replaced, disk.Unreadable, disk.TimedOut} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, func(e *env) {
				identity := e.disks.add("disk1", "")
				e.disks.fail(identity, disk.Problemf(reason, "for a moment"))
				e.start()
				e.expect("disk1", "Pending: "+string(reason))
				e.disks.fail(identity, nil)
				e.pass(3 * time.Minute)
				if e.volume() == nil {
					e.t.Errorf("%s is still reported: %s", reason, e.reason("disk1"))
				}
			})
		})
	}
}

// TestDisksThatHang do not delay others, and block one goroutine each.
func TestDisksThatHang(t *testing.T) {
	inBubble(t, func(e *env) {
		for i := range 20 {
			e.disks.hang(e.disks.add(fmt.Sprintf("hung%d", i), ""))
		}
		e.disks.add("disk1", "")
		e.start()
		e.pass(5 * time.Minute)
		e.expect("hung7", "Pending: TimedOut")
		e.expect("disk1", "Pending")
		if e.volume() == nil {
			t.Error("a disk that answers is not published")
		}
		e.disks.mu.Lock()
		asked := e.disks.asked
		e.disks.mu.Unlock()
		e.pass(24 * time.Hour)
		e.disks.mu.Lock()
		defer e.disks.mu.Unlock()
		if e.disks.asked != asked {
			t.Errorf("disks that have not answered were read %d times more", e.disks.asked-asked)
		}
		if err := e.provisioner.Healthy(); err != nil {
			t.Errorf("not healthy: %v", err)
		}
	})
}

// TestDataWrittenBeforePublish: a disk must be empty at the moment it is published.
func TestDataWrittenBeforePublish(t *testing.T) {
	for _, existing := range []provisioner.ExistingData{provisioner.ExistingDataRefuse, provisioner.ExistingDataClean} {
		t.Run(string(existing), func(t *testing.T) {
			inBubble(t, func(e *env) {
				configure(e.config, func(c *provisioner.Class) { c.ExistingData = existing })
				identity := e.disks.add("disk1", "")
				e.api.refuse(forbid("create", "persistentvolumes"))
				e.start()
				e.pass(time.Hour)
				e.expect("disk1", "Pending: CannotCreate")
				e.disks.write(identity, "ext4")
				e.api.refuse(nil)
				e.pass(5 * time.Minute)
				if pv := e.volume(); pv != nil && e.disks.read(identity) != "" {
					e.t.Errorf("volume %s has data that was written before it was published", pv.Name)
				}
			})
		})
	}
}

// TestDatasetsOfOnePool: writes to another dataset change the size of a free dataset, but neither
// its volume nor the report.
func TestDatasetsOfOnePool(t *testing.T) {
	inBubble(t, func(e *env) {
		f := fact("disk1")
		f.FilesystemType = "zfs"
		e.disks.put(f)
		e.disks.write(f.Identity, "")
		e.start()
		e.phase(corev1.VolumeAvailable)
		e.pass(time.Minute)
		first, before := e.volume(), entryOf(e.provisioner, "disk1")
		for range 10 {
			f.Bytes -= 1 << 20
			e.disks.put(f)
			e.look()
			e.pass(time.Minute)
		}
		if pv := e.volume(); pv == nil || pv.UID != first.UID || len(e.disks.cleaned()) > 0 {
			t.Errorf("the volume is %v, was %s", pv, first.Name)
		}
		e.expect("disk1", "Available")
		if now := entryOf(e.provisioner, "disk1"); now.Bytes != before.Bytes {
			t.Errorf("the report has %d bytes, and had %d", now.Bytes, before.Bytes)
		}
	})
}
