// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestPlanOfCleaning has the lines of the local volume proposal's test plan that are about
// cleaning in the background, in the proposal's words.
func TestPlanOfCleaning(t *testing.T) {
	t.Run("Validate that both success and failure of asynchronous cleanup processes are properly tracked by the provisioner", func(t *testing.T) {
		for outcome, want := range map[disk.State]decide.Action{disk.Clean: decide.RemoveFinalizer, disk.Cleaning: decide.Clean} {
			if got := reclaim(t, with(deleting(), state(outcome))); got.Do != want {
				t.Errorf("after a clean that left the record %s: got %+v, want %s", outcome, got, want)
			}
		}
	})
	t.Run("Ensure a new PV is not created while cleaning of volume behind the PV is still in progress", func(t *testing.T) {
		slots := map[string]*decide.Slot{
			"the finalizer holds the volume":          with(deleting(), state(disk.Cleaning)),
			"the volume's object was removed by hand": vanished(disk.Cleaning, disk.Delete),
			"no data was found on the disk":           with(vanished(disk.Cleaning, disk.Delete), func(s *decide.Slot) { s.Content = disk.ContentNone }),
			"existingData is Publish":                 with(vanished(disk.Cleaning, disk.Delete), func(s *decide.Slot) { s.Existing = decide.ExistingPublish }),
		}
		for name, s := range slots {
			if !decide.ForReclaim(s) {
				t.Errorf("%s: for Publish, which decides %+v", name, decide.Publish(s, 100))
				continue
			}
			if got := decide.Reclaim(s); got.Do == decide.Create || got.Do == decide.MarkClean {
				t.Errorf("%s: got %+v", name, got)
			}
		}
	})
	t.Run("Ensure two simultaneous cleaning operations on the same PV do not occur", func(t *testing.T) {
		// A slot has one decision at a time, and none while its disk is being cleaned. A second
		// slot of the same disk is never cleaned.
		other := with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.DuplicatePV = "local-pv-1" })
		if got := reclaim(t, other); got.Do != decide.None {
			t.Errorf("a second slot of the disk: got %+v", got)
		}
	})
}
