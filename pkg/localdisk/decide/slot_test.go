// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestAbsent(t *testing.T) {
	problem := func(reason disk.Reason) *disk.Fact { return &disk.Fact{Problem: disk.Problemf(reason, "")} }
	for name, test := range map[string]struct {
		slot decide.Slot
		want bool
	}{
		"nothing there, seen twice":                               {decide.Slot{DirectoryRead: true, MissedScans: 2}, true},
		"nothing there, seen once: perhaps a remount":             {decide.Slot{DirectoryRead: true, MissedScans: 1}, false},
		"nothing there, but the directory could not be read":      {decide.Slot{MissedScans: 2}, false},
		"the directory beneath a mount that is gone":              {decide.Slot{DirectoryRead: true, MissedScans: 2, Fact: problem(disk.MountMissing)}, true},
		"a disk that does not answer is there":                    {decide.Slot{DirectoryRead: true, MissedScans: 2, Fact: problem(disk.TimedOut)}, false},
		"a disk that something else uses is there":                {decide.Slot{DirectoryRead: true, MissedScans: 2, Fact: problem(disk.InUse)}, false},
		"a disk that is back, before the count of looks is reset": {decide.Slot{DirectoryRead: true, MissedScans: 2, Fact: &disk.Fact{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.slot.Absent(); got != test.want {
				t.Errorf("Absent is %t, want %t", got, test.want)
			}
		})
	}
}
