// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestObserveHealth observes a disk every five seconds.
func TestObserveHealth(t *testing.T) {
	limits := decide.HealthLimits{Degraded: 1, Failing: 10}
	sign := func(reason disk.Reason) []disk.Sign { return []disk.Sign{{Reason: reason, Message: "found"}} }
	ext4 := func(n uint64) []disk.Sign {
		return []disk.Sign{{Reason: disk.DiskErrors, Message: "found", Counter: "ext4", Value: n}}
	}
	drive := func(n uint64) []disk.Sign {
		return []disk.Sign{{Reason: disk.DiskErrors, Message: "found", Counter: "nvme", Value: n, Lifetime: true}}
	}
	sectors := func(n uint64) []disk.Sign {
		return []disk.Sign{{Reason: disk.DriveWarning, Message: "found", Counter: "ata", Value: n, Lifetime: true}}
	}
	read := []disk.Sign{{Reason: disk.DiskErrors, Message: "found", Source: disk.OwnRead}}
	logged := []disk.Sign{{Reason: disk.DiskErrors, Message: "found", Source: disk.KernelLog}}
	both := slices.Concat(read, logged)
	repeat := func(n int, signs []disk.Sign) [][]disk.Sign { return slices.Repeat([][]disk.Sign{signs}, n) }
	for name, test := range map[string]struct {
		seen   [][]disk.Sign
		want   disk.HealthState
		reason disk.Reason
		errors uint64
	}{
		"no sign":                               {seen: repeat(3, nil), want: disk.Healthy},
		"a counter that is 0":                   {seen: repeat(3, ext4(0)), want: disk.Healthy},
		"an error, which stays counted":         {seen: slices.Concat(repeat(1, ext4(0)), repeat(50, ext4(1))), want: disk.Degraded, reason: disk.DiskErrors, errors: 1},
		"errors that were counted earlier":      {seen: repeat(1, ext4(3)), want: disk.Degraded, reason: disk.DiskErrors, errors: 3},
		"as many errors as the limit":           {seen: [][]disk.Sign{ext4(4), ext4(9), ext4(10)}, want: disk.Failing, reason: disk.DiskErrors, errors: 10},
		"errors that a check erased":            {seen: [][]disk.Sign{ext4(2), nil, ext4(0), ext4(0)}, want: disk.Degraded, reason: disk.DiskErrors, errors: 2},
		"more errors after a check":             {seen: [][]disk.Sign{ext4(6), ext4(0), ext4(4)}, want: disk.Failing, reason: disk.DiskErrors, errors: 10},
		"a remount that shows the same errors":  {seen: [][]disk.Sign{ext4(6), nil, ext4(6)}, want: disk.Degraded, reason: disk.DiskErrors, errors: 6},
		"errors without a counter":              {seen: repeat(10, sign(disk.DiskErrors)), want: disk.Failing, reason: disk.DiskErrors, errors: 10},
		"errors of a drive before it was known": {seen: repeat(2, drive(700)), want: disk.Healthy},
		"another error of a drive":              {seen: [][]disk.Sign{drive(700), drive(701)}, want: disk.Degraded, reason: disk.DiskErrors, errors: 1},
		"a counter of a drive that fell":        {seen: [][]disk.Sign{drive(700), drive(600), drive(601)}, want: disk.Degraded, reason: disk.DiskErrors, errors: 1},
		"sectors replaced before it was known":  {seen: repeat(2, sectors(8)), want: disk.Healthy},
		"another replaced sector":               {seen: [][]disk.Sign{sectors(8), sectors(30)}, want: disk.Degraded, reason: disk.DriveWarning},
		"sectors that were repaired":            {seen: [][]disk.Sign{sectors(8), sectors(0)}, want: disk.Healthy},
		"a read error in both sources":          {seen: [][]disk.Sign{both}, want: disk.Degraded, reason: disk.DiskErrors, errors: 1},
		"a read error that is logged later":     {seen: [][]disk.Sign{read, logged}, want: disk.Degraded, reason: disk.DiskErrors, errors: 1},
		"a read error that was logged before":   {seen: [][]disk.Sign{logged, read}, want: disk.Degraded, reason: disk.DiskErrors, errors: 1},
		"a read error and one long after it":    {seen: [][]disk.Sign{read, nil, logged}, want: disk.Degraded, reason: disk.DiskErrors, errors: 2},
		"three read errors, one in both":        {seen: [][]disk.Sign{read, read, logged, logged}, want: disk.Degraded, reason: disk.DiskErrors, errors: 3},
		"a read error in each pass, in both":    {seen: repeat(10, both), want: disk.Failing, reason: disk.DiskErrors, errors: 10},
		"read errors of a program":              {seen: repeat(10, logged), want: disk.Failing, reason: disk.DiskErrors, errors: 10},
		"a counter and a read error":            {seen: [][]disk.Sign{slices.Concat(ext4(2), both)}, want: disk.Degraded, reason: disk.DiskErrors, errors: 3},
		"the drive's warning":                   {seen: [][]disk.Sign{sign(disk.DriveWarning), nil}, want: disk.Degraded, reason: disk.DriveWarning},
		"the drive's failure":                   {seen: [][]disk.Sign{sign(disk.DriveWarning), sign(disk.DriveFailing)}, want: disk.Failing, reason: disk.DriveFailing},
		"a warning after a failure":             {seen: [][]disk.Sign{sign(disk.WriteLost), sign(disk.DriveWarning)}, want: disk.Failing, reason: disk.WriteLost},
		"a device that rejects writes":          {seen: repeat(3, sign(disk.DeviceReadOnly)), want: disk.Healthy},
		"lost data":                             {seen: [][]disk.Sign{sign(disk.WriteLost), nil}, want: disk.Failing, reason: disk.WriteLost},
		"a file system that a remount repaired": {seen: [][]disk.Sign{sign(disk.FilesystemError), nil}, want: disk.Failing, reason: disk.FilesystemError},
		"a disk that hangs":                     {seen: repeat(1, sign(disk.Hung)), want: disk.Failing, reason: disk.Hung},
		"a disk that answers sometimes":         {seen: slices.Concat(repeat(1, sign(disk.Hung)), repeat(11, nil), repeat(1, sign(disk.Hung)), repeat(11, nil)), want: disk.Failing, reason: disk.Hung},
		"a disk that answers for a minute":      {seen: slices.Concat(repeat(1, sign(disk.Hung)), repeat(12, nil)), want: disk.Degraded, reason: disk.Hung},
	} {
		t.Run(name, func(t *testing.T) {
			var h disk.Health
			now := time.Unix(1_000_000, 0)
			for _, signs := range test.seen {
				h = decide.ObserveHealth(h, signs, limits, now)
				now = now.Add(5 * time.Second)
			}
			problem := decide.HealthProblem(&h, "wwn:1")
			got := disk.Reason("")
			if problem != nil {
				got = problem.Reason
			}
			if h.Current() != test.want || got != test.reason || h.Errors != test.errors {
				t.Errorf("%s for %q, %d errors; want %s for %q, %d", h.Current(), got, h.Errors, test.want, test.reason, test.errors)
			}
			again := decide.ObserveHealth(decide.ResetHealth(h), test.seen[len(test.seen)-1][:0], limits, now)
			if again.Current() != disk.Healthy {
				t.Errorf("after a reset: %+v", again)
			}
		})
	}
}

// TestResetHealth: errors that were counted before a reset do not count again, later ones do.
func TestResetHealth(t *testing.T) {
	limits := decide.HealthLimits{Degraded: 1, Failing: 2}
	ext4 := func(n uint64) []disk.Sign { return []disk.Sign{{Reason: disk.DiskErrors, Counter: "ext4", Value: n}} }
	h := decide.ObserveHealth(disk.Health{}, ext4(5), limits, time.Unix(100, 0))
	name := h.ResetName("wwn:1")
	h = decide.ObserveHealth(decide.ResetHealth(h), ext4(5), limits, time.Unix(200, 0))
	if h.Current() != disk.Healthy {
		t.Errorf("after a reset: %+v", h)
	}
	h = decide.ObserveHealth(h, ext4(6), limits, time.Unix(300, 0))
	if h.Current() != disk.Degraded || h.ResetName("wwn:1") == name {
		t.Errorf("after another error: %+v, and the reset %s", h, h.ResetName("wwn:1"))
	}
}

// TestWithHealth adds health to the status of a listed disk.
func TestWithHealth(t *testing.T) {
	degraded := disk.Health{State: disk.Degraded, Reason: disk.DiskErrors, Message: "found"}
	hung := disk.Health{State: disk.Degraded, Reason: disk.Hung, Message: "found", Hung: true}
	healthy := stowage.LocalDiskStatus{State: stowage.LocalDiskAssigned, Health: stowage.LocalDiskHealthy}
	faulty := stowage.LocalDiskStatus{State: stowage.LocalDiskAssigned, Health: stowage.LocalDiskFailing, Reason: "IOError"}
	for name, test := range map[string]struct {
		status stowage.LocalDiskStatus
		health disk.Health
		want   stowage.LocalDiskHealth
		reason disk.Reason
	}{
		"no sign":                         {healthy, disk.Health{}, stowage.LocalDiskHealthy, ""},
		"degraded":                        {healthy, degraded, stowage.LocalDiskDegraded, disk.DiskErrors},
		"hung":                            {healthy, hung, stowage.LocalDiskFailing, disk.Hung},
		"degraded, and a fault of a scan": {faulty, degraded, stowage.LocalDiskFailing, disk.IOError},
		"hung, and a fault of a scan":     {faulty, hung, stowage.LocalDiskFailing, disk.Hung},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide.WithHealth(test.status, &test.health, "wwn:1")
			if got.Health != test.want || got.Reason != string(test.reason) || got.State != test.status.State {
				t.Errorf("%s for %q, want %s for %q", got.Health, got.Reason, test.want, test.reason)
			}
		})
	}
}

// TestHealthDecisions decides about slots whose disk has a state of health.
func TestHealthDecisions(t *testing.T) {
	degraded := disk.Health{State: disk.Degraded, Reason: disk.DiskErrors, Message: "found"}
	failing := disk.Health{State: disk.Failing, Reason: disk.WriteLost, Message: "found"}
	hung := disk.Health{State: disk.Degraded, Reason: disk.Hung, Message: "found", Hung: true}
	bound := func(s *decide.Slot) {
		s.Volume.Phase, s.Volume.Claimed, s.Record.Phase = disk.PhaseBound, true, disk.PhaseBound
	}
	for name, test := range map[string]struct {
		health disk.Health
		change func(*decide.Slot)
		want   decide.Decision
	}{
		"degraded, free":  {health: degraded, want: decide.Decision{Do: decide.None, State: stowage.EntryAvailable, Problem: &disk.Problem{Reason: disk.DiskErrors}}},
		"degraded, bound": {health: degraded, change: bound, want: decide.Decision{Do: decide.None, State: stowage.EntryBound, Problem: &disk.Problem{Reason: disk.DiskErrors}}},
		"failing, free":   {health: failing, want: decide.Decision{Do: decide.DeleteVolume, State: stowage.EntryFailing, Problem: &disk.Problem{Reason: disk.WriteLost}}},
		"failing, bound":  {health: failing, change: bound, want: decide.Decision{Do: decide.MarkDisk, State: stowage.EntryFailing, Mark: disk.MarkFailing, Problem: &disk.Problem{Reason: disk.WriteLost}}},
		"failing, and kubelet has a link": {health: failing, change: func(s *decide.Slot) {
			bound(s)
			s.Fact.Kind, s.Fact.Device, s.Volume.Link, s.Link = disk.Device, "/dev/sdb", "/dev/stowage/disks/fast/pv", "/dev/sdb"
		}, want: decide.Decision{Do: decide.RemoveLink, State: stowage.EntryFailing, Mark: disk.MarkFailing, Problem: &disk.Problem{Reason: disk.WriteLost}}},
		"degraded, and kubelet has a link": {health: degraded, change: func(s *decide.Slot) {
			bound(s)
			s.Volume.Mode = disk.Block
			s.Fact.Kind, s.Fact.Device, s.Volume.Link, s.Link = disk.Device, "/dev/sdb", "/dev/stowage/disks/fast/pv", "/dev/sdb"
		}, want: decide.Decision{Do: decide.None, State: stowage.EntryBound, Problem: &disk.Problem{Reason: disk.DiskErrors}}},
		"hung, and the scan has no answer": {health: hung, change: func(s *decide.Slot) {
			bound(s)
			s.Fact.Identity, s.Fact.Problem = "", disk.Problemf(disk.TimedOut, "no answer")
		}, want: decide.Decision{Do: decide.MarkDisk, State: stowage.EntryFailing, Mark: disk.MarkFailing, Problem: &disk.Problem{Reason: disk.Hung}}},
		"failing, and gone": {health: failing, change: func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.MountMissing, "gone") },
			want: decide.Decision{Do: decide.None, State: stowage.EntryAvailable, Problem: &disk.Problem{Reason: disk.Missing}}},
		"failing, and another disk is there": {health: failing, change: func(s *decide.Slot) { s.Fact.Identity = "wwn:2" },
			want: decide.Decision{Do: decide.DeleteVolume, State: stowage.EntryReplaced, Problem: &disk.Problem{Reason: disk.Replaced}}},
		"failing, never published": {health: failing, change: func(s *decide.Slot) { s.Volume, s.VolumeRecord, s.Record = nil, nil, nil },
			want: decide.Decision{Do: decide.None, State: stowage.EntrySkipped, Problem: &disk.Problem{Reason: disk.WriteLost}}},
	} {
		t.Run(name, func(t *testing.T) {
			record := &disk.Record{Identity: "wwn:1", Volume: "pv", UID: "u", Cluster: "c", State: disk.Published, Policy: disk.Delete, Phase: disk.PhaseAvailable}
			s := decide.Slot{
				Key: disk.Key{Class: "fast", Name: "a"}, Path: "/mnt/fast/a", Configured: true, Cluster: "c", DirectoryRead: true, Stayed: true,
				Fact:   &disk.Fact{HostPath: "/mnt/fast/a", Kind: disk.Mount, Identity: "wwn:1", Bytes: 1},
				Volume: &disk.Volume{Name: "pv", UID: "u", HostPath: "/mnt/fast/a", Identity: "wwn:1", Phase: disk.PhaseAvailable, Policy: disk.Delete, Finalized: true},
				Record: record, VolumeRecord: record,
			}
			if test.change != nil {
				test.change(&s)
			}
			found := s.Fact
			before := *found
			s.AddHealth(&test.health, "wwn:1")
			got := decide.Decide(&s, 1)
			if got.Problem != nil {
				got.Problem = &disk.Problem{Reason: got.Problem.Reason}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, *found); diff != "" {
				t.Errorf("the scan's fact was changed:\n%s", diff)
			}
		})
	}
}
