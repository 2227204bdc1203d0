// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// bad is a disk that a look finds something wrong with. One that does not answer does
// not say which disk it is.
func bad(name string, reason disk.Reason) disk.Fact {
	f := fact(name)
	f.Problem = disk.Problemf(reason, "bad")
	if reason == disk.TimedOut || reason == disk.IOError {
		f.Identity, f.Place, f.Bytes = "", "", 0
	}
	return f
}

// TestFailingDisk: a bound volume says that its disk is failing, as long as it is.
func TestFailingDisk(t *testing.T) {
	for _, reason := range []disk.Reason{disk.TimedOut, disk.IOError} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, func(w *env) {
				w.disks.add("disk1", "")
				w.startBound()
				w.pass(time.Minute)
				w.events.take()

				w.disks.put(bad("disk1", reason))
				w.pass(100 * time.Second) // of which the first minute may go by without a look
				w.marked("before that has lasted for a minute", "")
				w.pass(time.Minute)
				w.marked("without an answer", "Failing")
				w.expect("disk1", "Failing: "+string(reason))
				if summary := stowage.Summarize(w.provisioner.status.all()); summary.Failing != 1 {
					t.Errorf("the report's summary is %+v", summary)
				}
				w.start()
				w.marked("to the next agent", "Failing")
				w.expect("disk1", "Failing: "+string(reason))

				w.pass(3 * time.Minute)
				w.disks.put(fact("disk1"))
				w.look()
				w.marked("after one answer", "Failing")
				w.expect("disk1", "Failing: "+string(reason))
				w.pass(3 * time.Minute)
				w.marked("after answers for a minute", "")
				w.expect("disk1", "Bound")
				if got := w.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q", got)
				}
			})
		})
	}
}

// TestFilesystemError: what the kernel says counts at the next look, and until the kernel
// says otherwise.
func TestFilesystemError(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.startBound()
		w.events.take()
		w.disks.put(bad("disk1", disk.FilesystemError))
		w.pass(65 * time.Second) // no event tells of it
		w.marked("after an error", "Failing")
		w.expect("disk1", "Failing: FilesystemError")
		w.pass(time.Hour)
		events := w.events.take()
		if len(events) != 1 || !strings.HasPrefix(events[0], "Warning FilesystemError: ") {
			t.Errorf("events are %q, want one", events)
		}
		w.disks.put(fact("disk1"))
		w.look()
		w.marked("repaired", "")
		w.expect("disk1", "Bound")
	})
}

// TestDiskThatComesAndGoes is not worth a write each time.
func TestFlappingDisk(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.startBound()
		w.pass(time.Minute)
		before := w.volume().ResourceVersion
		for range 100 {
			w.disks.put(bad("disk1", disk.TimedOut))
			w.pass(30 * time.Second)
			w.disks.put(fact("disk1"))
			w.pass(30 * time.Second)
		}
		if after := w.volume().ResourceVersion; after != before {
			t.Errorf("the volume was written")
		}
	})
}

// TestFreeVolumeOfAFailingDisk is withdrawn, and published when the disk is well again and
// was cleaned, or was seen to be empty after its volume was gone.
func TestFreeVolumeOfAFailingDisk(t *testing.T) {
	for reason, state := range map[disk.Reason]string{
		// What does not say which disk it is may be any: the volume goes at once.
		disk.TimedOut: "Skipped", disk.IOError: "Skipped",
		disk.FilesystemError: "Failing", disk.DeviceReadOnly: "Failing",
	} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, func(w *env) {
				w.disks.add("disk1", "")
				w.start()
				w.phase(corev1.VolumeAvailable)
				first := w.volume().UID
				w.disks.put(bad("disk1", reason))
				w.pass(3 * time.Minute)
				if pv := w.volume(); (pv == nil) != (state == "Skipped") || pv != nil && pv.DeletionTimestamp == nil {
					t.Errorf("the volume is %v, want it withdrawn", pv)
				}
				w.expect("disk1", state+": "+string(reason))
				if got := w.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q", got)
				}
				w.disks.put(fact("disk1"))
				w.pass(5 * time.Minute)
				cleans := 1
				if state == "Skipped" { // the volume, which never had a claim, is gone, and the disk is empty
					cleans = 0
				}
				if pv, got := w.volume(), w.disks.cleaned(); pv == nil || pv.UID == first || len(got) != cleans {
					t.Errorf("the volume is %v, want another one; cleaned %q, want %d", pv, got, cleans)
				}
			})
		})
	}
}

// TestReleasedVolumeOfAFailingDisk is not cleaned before its disk is well.
func TestReleasedVolumeOfAFailingDisk(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "data")
		w.config.Classes[0].ExistingData = "Publish"
		w.startBound()
		w.disks.put(bad("disk1", disk.FilesystemError))
		w.look()
		w.phase(corev1.VolumeReleased)
		w.pass(time.Hour)
		w.expect("disk1", "Failing: FilesystemError")
		if pv := w.volume(); pv == nil || pv.DeletionTimestamp != nil || len(w.disks.cleaned()) > 0 {
			t.Errorf("the volume is %v, want it to wait", pv)
		}
		w.disks.put(fact("disk1"))
		w.pass(5 * time.Minute)
		if got := w.disks.cleaned(); len(got) != 1 {
			t.Errorf("cleaned %q, want once", got)
		}
	})
}
