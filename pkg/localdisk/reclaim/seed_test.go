// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package reclaim_test

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/discovery"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/reclaim"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// TestSeedCleaning has the lines of the local volume proposal's test plan that are about
// cleaning in the background, by the proposal's own words.
func TestSeedCleaning(t *testing.T) {
	t.Run("Validate that both success and failure of asynchronous cleanup processes are properly tracked by the provisioner", func(t *testing.T) {
		for outcome, want := range map[disk.State]slot.Action{disk.Clean: slot.RemoveFinalizer, disk.Cleaning: slot.Wipe} {
			if got := decide(t, with(deleting(), state(outcome))); got.Do != want {
				t.Errorf("after a clean that left the record %s: got %+v, want %s", outcome, got, want)
			}
		}
	})
	t.Run("Ensure a new PV is not created while cleaning of volume behind the PV is still in progress", func(t *testing.T) {
		slots := map[string]*slot.Slot{
			"the volume is held":                        with(deleting(), state(disk.Cleaning)),
			"the volume's object was removed by hand":   vanished(disk.Cleaning, disk.Delete),
			"and the disk looks empty":                  with(vanished(disk.Cleaning, disk.Delete), func(s *slot.Slot) { s.Content = disk.ContentNone }),
			"and the class publishes whatever it finds": with(vanished(disk.Cleaning, disk.Delete), func(s *slot.Slot) { s.Existing = slot.Publish }),
		}
		for name, s := range slots {
			if !reclaim.Concerns(s) {
				t.Errorf("%s: left to discovery, which says %+v", name, discovery.Decide(s, 100))
				continue
			}
			if got := reclaim.Decide(s); got.Do == slot.Create || got.Do == slot.MarkClean {
				t.Errorf("%s: got %+v", name, got)
			}
		}
	})
	t.Run("Ensure two simultaneous cleaning operations on the same PV do not occur", func(t *testing.T) {
		// A slot asks for one thing at a time, and while its disk is being cleaned it is not
		// asked about. A second slot that leads to the same disk is never cleaned.
		other := with(vanished(disk.Published, disk.Delete), func(s *slot.Slot) { s.Elsewhere = "local-pv-1" })
		if got := decide(t, other); got.Do != slot.None {
			t.Errorf("a second way to the disk: got %+v", got)
		}
	})
}
