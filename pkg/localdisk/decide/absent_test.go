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
		"nothing at the path in two scans":                     {decide.Slot{DirectoryRead: true, MissedScans: 2}, true},
		"nothing at the path in one scan: perhaps a remount":   {decide.Slot{DirectoryRead: true, MissedScans: 1}, false},
		"nothing observed, since the directory cannot be read": {decide.Slot{MissedScans: 2}, false},
		"the directory beneath a mount that is gone":           {decide.Slot{DirectoryRead: true, MissedScans: 2, Fact: problem(disk.MountMissing)}, true},
		"a disk that does not answer":                          {decide.Slot{DirectoryRead: true, MissedScans: 2, Fact: problem(disk.TimedOut)}, false},
		"a disk that something else uses":                      {decide.Slot{DirectoryRead: true, MissedScans: 2, Fact: problem(disk.InUse)}, false},
		"a disk that is back, before MissedScans is reset":     {decide.Slot{DirectoryRead: true, MissedScans: 2, Fact: &disk.Fact{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.slot.Absent(); got != test.want {
				t.Errorf("Absent is %t, want %t", got, test.want)
			}
		})
	}
}
