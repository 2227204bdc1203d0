// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"slices"
	"testing"
	"time"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestFault observes a disk in scans that are five seconds apart.
func TestFault(t *testing.T) {
	const apart = 5 * time.Second
	const n = decide.FaultScans
	repeat := func(reason disk.Reason, times int) []disk.Reason { return slices.Repeat([]disk.Reason{reason}, times) }
	good, timeout, failed := repeat("", 1), repeat(disk.TimedOut, 1), repeat(disk.IOError, 1)
	for name, test := range map[string]struct {
		scans [][]disk.Reason
		pause time.Duration // between scans; apart if zero
		// The state after the last scan.
		failing, changing bool
		reason            disk.Reason
	}{
		"a disk that answers":                      {scans: [][]disk.Reason{good}},
		"one timeout on a busy node":               {scans: [][]disk.Reason{timeout}, changing: true, reason: disk.TimedOut},
		"timeouts, and then an answer":             {scans: [][]disk.Reason{repeat(disk.TimedOut, n-1), good}},
		"timeouts between which it answers":        {scans: [][]disk.Reason{repeat(disk.TimedOut, n-1), good, repeat(disk.TimedOut, n-1)}, changing: true, reason: disk.TimedOut},
		"no answer for a minute":                   {scans: [][]disk.Reason{repeat(disk.TimedOut, n)}, failing: true, reason: disk.TimedOut},
		"timeouts and errors":                      {scans: [][]disk.Reason{repeat(disk.TimedOut, n-1), failed}, failing: true, reason: disk.IOError},
		"many scans that other events cause":       {scans: [][]disk.Reason{repeat(disk.TimedOut, 10*n)}, pause: apart / 100, changing: true, reason: disk.TimedOut},
		"a failing disk that answers once":         {scans: [][]disk.Reason{repeat(disk.IOError, n), good}, failing: true, changing: true, reason: disk.IOError},
		"a failing disk that answers sometimes":    {scans: [][]disk.Reason{repeat(disk.IOError, n), repeat("", n-1), failed, repeat("", n-1)}, failing: true, changing: true, reason: disk.IOError},
		"a failing disk that answers for a minute": {scans: [][]disk.Reason{repeat(disk.IOError, n), repeat("", n)}},
		"a mount that is read-only":                {scans: [][]disk.Reason{repeat(disk.ReadOnly, 2*n)}, reason: disk.ReadOnly},
		"a problem that the disk need not cause":   {scans: [][]disk.Reason{repeat(disk.Unreadable, 2*n)}, reason: disk.Unreadable},
		"a fault that the kernel reports":          {scans: [][]disk.Reason{repeat(disk.FilesystemError, 2*n), good}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.pause == 0 {
				test.pause = apart
			}
			var fault decide.Fault
			var problem *disk.Problem
			now := time.Unix(1_000_000, 0)
			for _, reason := range slices.Concat(test.scans...) {
				found := disk.Problemf(reason, "found")
				if reason == "" {
					found = nil
				}
				fault = fault.Observe(found, now, apart)
				problem = fault.Problem(found)
				now = now.Add(test.pause)
			}
			got := disk.Reason("")
			if problem != nil {
				got = problem.Reason
			}
			if fault.Failing != test.failing || fault.Changing() != test.changing || got != test.reason {
				t.Errorf("failing %t, changing %t, problem %q; want %t, %t, %q", fault.Failing, fault.Changing(), got, test.failing, test.changing, test.reason)
			}
		})
	}
}

func TestFailing(t *testing.T) {
	found := func(reason disk.Reason) decide.Slot {
		return decide.Slot{Fact: &disk.Fact{Problem: disk.Problemf(reason, "")}}
	}
	persistent := func(reason disk.Reason) decide.Slot {
		s := found(reason)
		s.Persistent = true
		return s
	}
	marked := func(reason disk.Reason, mark disk.Mark) decide.Slot {
		s := found(reason)
		s.Volume = &disk.Volume{Mark: mark}
		return s
	}
	for name, test := range map[string]struct {
		slot decide.Slot
		want bool
	}{
		"nothing at the path": {decide.Slot{Persistent: true}, false},
		"a healthy disk":      {decide.Slot{Fact: &disk.Fact{}, Persistent: true}, false},
		"a file system that the kernel does not write to":   {found(disk.FilesystemError), true},
		"a device that rejects writes":                      {found(disk.DeviceReadOnly), true},
		"a file system that was mounted ro":                 {persistent(disk.ReadOnly), false},
		"a timeout":                                         {found(disk.TimedOut), false},
		"persistent timeouts":                               {persistent(disk.TimedOut), true},
		"persistent I/O errors":                             {persistent(disk.IOError), true},
		"a timeout of a disk that was failing at a restart": {marked(disk.TimedOut, disk.MarkFailing), true},
		"a timeout of a disk that was missing":              {marked(disk.TimedOut, disk.MarkMissing), false},
		"a disk in use that was failing":                    {marked(disk.InUse, disk.MarkFailing), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.slot.Failing(); got != test.want {
				t.Errorf("failing is %t, want %t", got, test.want)
			}
		})
	}
}
