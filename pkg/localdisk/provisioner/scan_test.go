// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestRemountOnABusyNode: where something is mounted every moment, the looks that this
// asks for must not make a disk vanish that is away for a moment only.
func TestRemountOnABusyNode(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.start()
		w.phase(corev1.VolumeAvailable)
		first := w.volume().UID
		w.disks.take("disk1")
		for range 40 {
			poke(w.provisioner.scanner.requests)
			w.pass(100 * time.Millisecond)
		}
		w.disks.put(fact("disk1"))
		w.look()
		if pv := w.volume(); pv == nil || pv.UID != first || pv.DeletionTimestamp != nil {
			t.Errorf("a disk was away for four seconds, and its volume is %v", pv)
		}
		w.disks.take("disk1")
		for range 80 {
			poke(w.provisioner.scanner.requests)
			w.pass(100 * time.Millisecond)
		}
		if pv := w.volume(); pv != nil {
			t.Errorf("a disk is away for eight seconds, and its volume is still there: %v", pv)
		}
	})
}

// TestLooksLeaveTime: where something is mounted every moment, most of the time is not
// spent on looking, in the long run; for a while it is quick.
func TestScanBudget(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.slow = 100 * time.Millisecond
		w.start()
		for _, most := range []int{125, 65, 65} { // in a minute each
			w.disks.looked()
			for range 600 {
				poke(w.provisioner.scanner.requests)
				w.pass(100 * time.Millisecond)
			}
			if looks := w.disks.looked(); looks < most/2 || looks > most {
				t.Errorf("looked %d times in a minute, at 0.1 s each, want %d to %d", looks, most/2, most)
			}
		}
	})
}

// TestClassThatIsTakenAway: nothing is told any more of its disks, and their volumes
// stay.
func TestRemovedClass(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.disks.add("disk2", "data")
		w.start()
		w.expect("disk2", "Skipped: NotEmpty")
		config := *w.config
		config.Classes = nil
		w.disks.take("disk1") // the class is not looked for
		w.disks.take("disk2")
		w.provisioner.Configure(context.Background(), &config)
		w.pass(time.Hour)
		w.expect("disk1", "Pending: NotConfigured")
		w.expect("disk2", "not told of")
		if w.volume() == nil {
			t.Error("the volume of a class that is not configured any more is gone")
		}
	})
}

// TestClassThatIsTakenAwayMeanwhile: a clean ends as it began.
func TestClassRemovedDuringClean(t *testing.T) {
	inBubble(t, func(w *env) {
		until := make(chan struct{})
		w.disks.during = func(context.Context, disk.CleanRequest, func(disk.Progress) error) error {
			<-until
			return nil
		}
		w.released("disk1", "disk2", "disk3")
		config := *w.config
		config.Classes = nil
		w.provisioner.Configure(context.Background(), &config)
		w.pass(time.Minute)
		close(until)
		w.pass(time.Minute)
		for name := range w.disks.facts {
			if data := w.disks.read(fact(name).Identity); data != "" {
				t.Errorf("%s holds data %q", name, data)
			}
		}
		if got := w.api.volumes(); len(got) > 0 {
			t.Errorf("volumes are left, and their disks are clean: %d", len(got))
		}
	})
}

// TestDiskThatMoves: the disk of a volume is found at another path, and is cleaned and
// published there as soon as that volume is gone.
func TestDiskThatMoves(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.startBound()
		moved := fact("disk2")
		moved.Identity = identity
		w.disks.take("disk1")
		w.disks.put(moved)
		w.look()
		w.pass(time.Minute)
		w.expect("disk1", "Missing: Missing")
		w.expect("disk2", "Skipped: SameBytes")
		w.change(func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased })
		w.remove()
		w.pass(time.Minute)
		pv := w.volume()
		if pv == nil || pv.Spec.Local.Path != moved.HostPath {
			t.Errorf("the volume is %v, want one at %s", pv, moved.HostPath)
		}
	})
}

// TestAnswersThatCome: what a disk could not say once is asked again, although nothing
// that can be seen has changed.
func TestErrorsThatEnd(t *testing.T) {
	for _, reason := range []disk.Reason{disk.MountMissing, disk.Missing, disk.Replaced, disk.Unreadable, disk.TimedOut} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, func(w *env) {
				identity := w.disks.add("disk1", "")
				w.disks.fail(identity, disk.Problemf(reason, "for a moment"))
				w.start()
				w.expect("disk1", "Pending: "+string(reason))
				w.disks.fail(identity, nil)
				w.pass(3 * time.Minute)
				if w.volume() == nil {
					w.t.Errorf("%s is still what is told: %s", reason, w.reason("disk1"))
				}
			})
		})
	}
}

// TestDisksThatHang keep no others from being published, and hold one goroutine each.
func TestDisksThatHang(t *testing.T) {
	inBubble(t, func(w *env) {
		for i := range 20 {
			w.disks.hang(w.disks.add(fmt.Sprintf("hung%d", i), ""))
		}
		w.disks.add("disk1", "")
		w.start()
		w.pass(5 * time.Minute)
		w.expect("hung7", "Pending: TimedOut")
		w.expect("disk1", "Pending")
		if w.volume() == nil {
			t.Error("a disk that answers is not published")
		}
		w.disks.mu.Lock()
		asked := w.disks.asked
		w.disks.mu.Unlock()
		w.pass(24 * time.Hour)
		w.disks.mu.Lock()
		defer w.disks.mu.Unlock()
		if w.disks.asked != asked {
			t.Errorf("disks that have not answered were asked %d times more", w.disks.asked-asked)
		}
		if err := w.provisioner.Healthy(); err != nil {
			t.Errorf("the agent is not healthy: %v", err)
		}
	})
}

// TestDataThatComesLater: that a disk was empty counts at the moment when it is
// published, and not before.
func TestDataWrittenBeforePublish(t *testing.T) {
	for _, existing := range []provisioner.ExistingData{provisioner.ExistingDataRefuse, provisioner.ExistingDataClean} {
		t.Run(string(existing), func(t *testing.T) {
			inBubble(t, func(w *env) {
				w.config.Classes[0].ExistingData = existing
				identity := w.disks.add("disk1", "")
				w.api.refuse(forbid("create", "persistentvolumes"))
				w.start()
				w.pass(time.Hour)
				w.expect("disk1", "Pending: CannotCreate")
				w.disks.write(identity, "ext4")
				w.api.refuse(nil)
				w.pass(5 * time.Minute)
				if pv := w.volume(); pv != nil && w.disks.read(identity) != "" {
					w.t.Errorf("volume %s offers data that was written before it was published", pv.Name)
				}
			})
		})
	}
}
