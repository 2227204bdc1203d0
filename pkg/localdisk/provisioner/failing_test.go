// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// bad is a disk with a problem. One that does not answer has no identity.
func bad(name string, reason disk.Reason) disk.Fact {
	f := fact(name)
	f.Problem = disk.Problemf(reason, "bad")
	if reason == disk.TimedOut || reason == disk.IOError {
		f.Identity, f.Place, f.Bytes = "", "", 0
	}
	return f
}

// TestFailingDisk: a bound volume is marked as long as its disk is failing.
func TestFailingDisk(t *testing.T) {
	for _, reason := range []disk.Reason{disk.TimedOut, disk.IOError} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.disks.add("disk1", "")
				e.startBound()
				e.pass(time.Minute)
				e.events.take()

				e.disks.put(bad("disk1", reason))
				e.pass(100 * time.Second) // of which the first minute may go by without a look
				e.marked("before that has lasted for a minute", "")
				e.pass(time.Minute)
				e.marked("without an answer", "Failing")
				e.expect("disk1", "Failing: "+string(reason))
				if summary := stowage.Summarize(e.provisioner.status.Entries()); summary.Failing != 1 {
					t.Errorf("the report's summary is %+v", summary)
				}
				e.start()
				e.marked("after a restart", "Failing")
				e.expect("disk1", "Failing: "+string(reason))

				e.pass(3 * time.Minute)
				e.disks.put(fact("disk1"))
				e.look()
				e.marked("after one answer", "Failing")
				e.expect("disk1", "Failing: "+string(reason))
				e.pass(3 * time.Minute)
				e.marked("after answers for a minute", "")
				e.expect("disk1", "Bound")
				if got := e.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q", got)
				}
			})
		})
	}
}

// TestFilesystemError: an error that the kernel reports is effective from the next scan, until
// the kernel reports none.
func TestFilesystemError(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.startBound()
		e.events.take()
		e.disks.put(bad("disk1", disk.FilesystemError))
		e.pass(65 * time.Second) // no event reports it
		e.marked("after an error", "Failing")
		e.expect("disk1", "Failing: FilesystemError")
		e.pass(time.Hour)
		events := e.events.take()
		if len(events) != 1 || !strings.HasPrefix(events[0], "Warning FilesystemError: ") {
			t.Errorf("events are %q, want one", events)
		}
		e.disks.put(fact("disk1"))
		e.look()
		e.marked("repaired", "")
		e.expect("disk1", "Bound")
	})
}

// TestFlappingDisk does not cause a write each time.
func TestFlappingDisk(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.startBound()
		e.pass(time.Minute)
		before := e.volume().ResourceVersion
		for range 100 {
			e.disks.put(bad("disk1", disk.TimedOut))
			e.pass(30 * time.Second)
			e.disks.put(fact("disk1"))
			e.pass(30 * time.Second)
		}
		if after := e.volume().ResourceVersion; after != before {
			t.Errorf("the volume was written")
		}
	})
}

// TestFreeVolumeOfAFailingDisk is withdrawn, and published again when the disk has recovered and
// was cleaned, or was found empty after its volume was removed.
func TestFreeVolumeOfAFailingDisk(t *testing.T) {
	for reason, state := range map[disk.Reason]string{
		// A disk without an identity may be any disk: the volume is removed at once.
		disk.TimedOut: "Skipped", disk.IOError: "Skipped",
		disk.FilesystemError: "Failing", disk.DeviceReadOnly: "Failing",
	} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.disks.add("disk1", "")
				e.start()
				e.phase(corev1.VolumeAvailable)
				first := e.volume().UID
				e.disks.put(bad("disk1", reason))
				e.pass(3 * time.Minute)
				if pv := e.volume(); (pv == nil) != (state == "Skipped") || pv != nil && pv.DeletionTimestamp == nil {
					t.Errorf("the volume is %v, want it withdrawn", pv)
				}
				e.expect("disk1", state+": "+string(reason))
				if got := e.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q", got)
				}
				e.disks.put(fact("disk1"))
				e.pass(5 * time.Minute)
				cleans := 1
				if state == "Skipped" { // the volume, which never had a claim, is gone, and the disk is empty
					cleans = 0
				}
				if pv, got := e.volume(), e.disks.cleaned(); pv == nil || pv.UID == first || len(got) != cleans {
					t.Errorf("the volume is %v, want another one; cleaned %q, want %d", pv, got, cleans)
				}
			})
		})
	}
}

// TestReleasedVolumeOfAFailingDisk is not cleaned before its disk has recovered.
func TestReleasedVolumeOfAFailingDisk(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "data")
		configure(e.config, func(c *provisioner.Class) { c.ExistingData = "Publish" })
		e.startBound()
		e.disks.put(bad("disk1", disk.FilesystemError))
		e.look()
		e.phase(corev1.VolumeReleased)
		e.pass(time.Hour)
		e.expect("disk1", "Failing: FilesystemError")
		if pv := e.volume(); pv == nil || pv.DeletionTimestamp != nil || len(e.disks.cleaned()) > 0 {
			t.Errorf("the volume is %v, want it to wait", pv)
		}
		e.disks.put(fact("disk1"))
		e.pass(5 * time.Minute)
		if got := e.disks.cleaned(); len(got) != 1 {
			t.Errorf("cleaned %q, want once", got)
		}
	})
}
