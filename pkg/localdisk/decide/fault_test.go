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
	well, silent, broken := repeat("", 1), repeat(disk.TimedOut, 1), repeat(disk.IOError, 1)
	for name, test := range map[string]struct {
		looks [][]disk.Reason
		pause time.Duration // between looks; apart if zero
		// failing and changing are after the last look; reason is what is wrong then.
		failing, changing bool
		reason            disk.Reason
	}{
		"a disk that answers":                      {looks: [][]disk.Reason{well}},
		"one timeout on a busy node":               {looks: [][]disk.Reason{silent}, changing: true, reason: disk.TimedOut},
		"timeouts, and then an answer":             {looks: [][]disk.Reason{repeat(disk.TimedOut, n-1), well}},
		"timeouts between which it answers":        {looks: [][]disk.Reason{repeat(disk.TimedOut, n-1), well, repeat(disk.TimedOut, n-1)}, changing: true, reason: disk.TimedOut},
		"no answer for a minute":                   {looks: [][]disk.Reason{repeat(disk.TimedOut, n)}, failing: true, reason: disk.TimedOut},
		"timeouts and errors":                      {looks: [][]disk.Reason{repeat(disk.TimedOut, n-1), broken}, failing: true, reason: disk.IOError},
		"many scans that other events cause":       {looks: [][]disk.Reason{repeat(disk.TimedOut, 10*n)}, pause: apart / 100, changing: true, reason: disk.TimedOut},
		"a failing disk that answers once":         {looks: [][]disk.Reason{repeat(disk.IOError, n), well}, failing: true, changing: true, reason: disk.IOError},
		"a failing disk that answers now and then": {looks: [][]disk.Reason{repeat(disk.IOError, n), repeat("", n-1), broken, repeat("", n-1)}, failing: true, changing: true, reason: disk.IOError},
		"a failing disk that answers for a minute": {looks: [][]disk.Reason{repeat(disk.IOError, n), repeat("", n)}},
		"a mount that is read-only":                {looks: [][]disk.Reason{repeat(disk.ReadOnly, 2*n)}, reason: disk.ReadOnly},
		"what need not be the disk's fault":        {looks: [][]disk.Reason{repeat(disk.Unreadable, 2*n)}, reason: disk.Unreadable},
		"the kernel reports this one itself":       {looks: [][]disk.Reason{repeat(disk.FilesystemError, 2*n), well}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.pause == 0 {
				test.pause = apart
			}
			var fault decide.Fault
			var problem *disk.Problem
			now := time.Unix(1_000_000, 0)
			for _, reason := range slices.Concat(test.looks...) {
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
	lasting := func(reason disk.Reason) decide.Slot {
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
		"nothing there": {decide.Slot{Persistent: true}, false},
		"a good disk":   {decide.Slot{Fact: &disk.Fact{}, Persistent: true}, false},
		"a file system that the kernel does not write to":   {found(disk.FilesystemError), true},
		"a device that rejects writes":                      {found(disk.DeviceReadOnly), true},
		"a file system that was mounted ro":                 {lasting(disk.ReadOnly), false},
		"a timeout":                                         {found(disk.TimedOut), false},
		"timeouts for a while":                              {lasting(disk.TimedOut), true},
		"I/O errors for a while":                            {lasting(disk.IOError), true},
		"a timeout of a disk that was failing at a restart": {marked(disk.TimedOut, disk.MarkFailing), true},
		"a timeout of a disk that was missing":              {marked(disk.TimedOut, disk.MarkMissing), false},
		"a disk that is used by others, and was failing":    {marked(disk.InUse, disk.MarkFailing), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.slot.Failing(); got != test.want {
				t.Errorf("failing is %t, want %t", got, test.want)
			}
		})
	}
}
