// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestPlanOfPublishing has the lines of the local volume proposal's test plan that are about
// discovery, in the proposal's words. "The cache" is the set of known volumes.
func TestPlanOfPublishing(t *testing.T) {
	t.Run("Directory not in the cache and PV should be created", func(t *testing.T) {
		s := with(found(), func(s *decide.Slot) { s.Fact.Kind, s.Content = disk.Directory, disk.ContentNone })
		if got := publish(s); got.Do != decide.Create {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("Directory is in the cache and PV should not be created", func(t *testing.T) {
		for _, phase := range []disk.Phase{"", disk.PhasePending, disk.PhaseAvailable, disk.PhaseBound} {
			if got := publish(published(phase)); got.Do != decide.None {
				t.Errorf("phase %q: got %+v", phase, got)
			}
		}
	})
	t.Run("PV creation failure should not add directory to cache", func(t *testing.T) {
		// After a failed creation no volume is known and the disk is still clean, so the
		// volume is created in the next attempt, under the same name.
		s := with(found(), func(s *decide.Slot) { s.Record, s.Stayed = &disk.Record{State: disk.Clean, Generation: 7}, true })
		for range 3 {
			if got := publish(s); got.Do != decide.Create || got.Generation != 7 {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("Non-directory type should not create a PV", func(t *testing.T) {
		s := with(found(), func(s *decide.Slot) {
			s.Content, s.Fact = disk.ContentNone, &disk.Fact{Key: key, Problem: disk.Problemf(disk.SpecialFile, "a FIFO")}
		})
		if got := publish(s); got.Do != decide.None || got.Reason != disk.SpecialFile {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("Unconfigured directories are ignored", func(t *testing.T) {
		s := with(found(), func(s *decide.Slot) { s.Configured, s.Content = false, disk.ContentNone })
		if got := publish(s); got.Do != decide.None {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("Directories created later are discovered and PV is created", func(t *testing.T) {
		s := with(found(), func(s *decide.Slot) { s.Fact = nil })
		if got := publish(s); got.Do != decide.None {
			t.Errorf("without the directory: got %+v", got)
		}
		s = with(found(), func(s *decide.Slot) { s.Fact.Kind, s.Content = disk.Directory, disk.ContentNone })
		if got := publish(s); got.Do != decide.Create {
			t.Errorf("with the directory: got %+v", got)
		}
	})
	t.Run("Validating that a discovery directory containing both block and file system volumes are appropriately discovered and have PVs created", func(t *testing.T) {
		for _, kind := range []disk.Kind{disk.Device, disk.Mount} {
			s := with(found(), func(s *decide.Slot) { s.Fact.Kind, s.Content, s.UsersKnown = kind, disk.ContentNone, true })
			if got := publish(s); got.Do != decide.Create {
				t.Errorf("%s: got %+v", kind, got)
			}
		}
	})
}
