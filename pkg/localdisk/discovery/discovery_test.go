// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/discovery"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// first is the generation that disks begin with in these tests.
const first = 100

var key = disk.Key{Class: "local-fast", Name: "disk1"}

// found is a slot with a disk that nobody knows yet.
func found() *slot.Slot {
	return &slot.Slot{
		Key: key, Configured: true, Existing: slot.Refuse, Looked: true, Asked: true,
		Fact: &disk.Fact{Key: key, HostPath: "/mnt/disks/disk1", Kind: disk.Mount, Identity: "fs:u1:/", Bytes: 10 << 30},
	}
}

// device is a slot with a block device that nobody knows yet.
func device() *slot.Slot {
	s := found()
	s.Fact.Kind, s.Fact.Device, s.Fact.Identity = disk.Device, "/dev/sdb", "wwn:1"
	return s
}

// published is a slot with a volume of the disk.
func published(phase disk.Phase) *slot.Slot {
	s := found()
	s.Volume = &disk.Volume{
		Name: "local-pv-1", UID: "1", Key: key, HostPath: "/mnt/disks/disk1", Identity: "fs:u1:/", Bytes: 10 << 30,
		DiskBytes: 10 << 30, Generation: first, Phase: phase, Policy: disk.Delete, Finalized: true, Claimed: phase == disk.PhaseBound,
	}
	s.Record = &disk.Record{
		Identity: "fs:u1:/", Key: key, State: disk.Published, Volume: "local-pv-1", Generation: first, Policy: disk.Delete, Phase: s.Volume.Seen(),
	}
	s.VolumeRecord = s.Record
	return s
}

func with(s *slot.Slot, change func(*slot.Slot)) *slot.Slot {
	change(s)
	return s
}

// outcome is a decision without what is told in words.
type outcome struct {
	Do         slot.Action
	State      slot.State
	Reason     disk.Reason
	Generation int64
	Mark       disk.Mark
}

func decide(s *slot.Slot) outcome {
	d := discovery.Decide(s, first)
	o := outcome{Do: d.Do, State: d.State, Generation: d.Generation, Mark: d.Mark}
	if d.Problem != nil {
		o.Reason = d.Problem.Reason
	}
	return o
}

func TestCandidates(t *testing.T) {
	for name, test := range map[string]struct {
		slot *slot.Slot
		want outcome
	}{
		"before anything else, the reports of other nodes are asked about a new disk": {
			with(found(), func(s *slot.Slot) { s.Asked, s.Content, s.Existing = false, disk.ContentNone, slot.Clean }),
			outcome{Do: slot.AskNodes, State: slot.Pending},
		},
		"a new disk is looked into": {
			found(), outcome{Do: slot.Inspect, State: slot.Pending},
		},
		"an empty one is published": {
			with(found(), func(s *slot.Slot) { s.Content = disk.ContentNone }),
			outcome{Do: slot.Create, State: slot.Pending, Generation: first},
		},
		"one with data is refused": {
			with(found(), func(s *slot.Slot) { s.Content, s.Found = disk.ContentSome, "an ext4 signature" }),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.NotEmpty},
		},
		"a device that seems to be blank is read from end to end": {
			with(found(), func(s *slot.Slot) { s.Content = disk.ContentSampled }),
			outcome{Do: slot.ProveBlank, State: slot.Pending, Reason: disk.ProvingBlank},
		},
		"one that is to become a raw device, all the same": {
			with(found(), func(s *slot.Slot) { s.Content, s.Mode = disk.ContentSampled, disk.Block }),
			outcome{Do: slot.ProveBlank, State: slot.Pending, Reason: disk.ProvingBlank},
		},
		"where the class says that new devices are blank, it is published": {
			with(found(), func(s *slot.Slot) { s.Content, s.Existing = disk.ContentSampled, slot.AssumeBlank }),
			outcome{Do: slot.Create, State: slot.Pending, Generation: first},
		},
		"that class looks for data too": {
			with(found(), func(s *slot.Slot) { s.Existing = slot.AssumeBlank }),
			outcome{Do: slot.Inspect, State: slot.Pending},
		},
		"and refuses what it finds": {
			with(found(), func(s *slot.Slot) { s.Content, s.Existing = disk.ContentSome, slot.AssumeBlank }),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.NotEmpty},
		},
		"and reads a device from end to end that may be a dirty one": {
			with(found(), func(s *slot.Slot) {
				s.Content, s.Existing, s.Unaccounted = disk.ContentSampled, slot.AssumeBlank, true
			}),
			outcome{Do: slot.ProveBlank, State: slot.Pending, Reason: disk.ProvingBlank},
		},
		"where the class says that found data is cleaned, a device is not read before": {
			with(found(), func(s *slot.Slot) { s.Content, s.Existing, s.UsersKnown = disk.ContentSampled, slot.Clean, true }),
			outcome{Do: slot.Wipe, State: slot.Cleaning, Generation: first},
		},
		"one with data is published once an administrator has acknowledged it": {
			with(found(), func(s *slot.Slot) { s.Content, s.Acknowledged = disk.ContentSome, true }),
			outcome{Do: slot.Create, State: slot.Pending, Generation: first},
		},
		"one with data is published, where the class says so": {
			with(found(), func(s *slot.Slot) { s.Existing = slot.Publish }),
			outcome{Do: slot.Create, State: slot.Pending, Generation: first},
		},
		"one with data is cleaned, where the class says so, if nobody uses it": {
			with(found(), func(s *slot.Slot) { s.Existing, s.Content = slot.Clean, disk.ContentSome }),
			outcome{Do: slot.FindUsers, State: slot.Pending},
		},
		"nobody does": {
			with(found(), func(s *slot.Slot) { s.Existing, s.Content, s.UsersKnown = slot.Clean, disk.ContentSome, true }),
			outcome{Do: slot.Wipe, State: slot.Cleaning, Generation: first},
		},
		"somebody does": {
			with(found(), func(s *slot.Slot) {
				s.Existing, s.Content, s.UsersKnown, s.Users = slot.Clean, disk.ContentSome, true, []disk.User{{What: "mount", Where: "/data"}}
			}),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.InUse},
		},
		"a clean disk is published without another look": {
			with(found(), func(s *slot.Slot) { s.Record, s.Stayed = &disk.Record{State: disk.Clean, Generation: 7}, true }),
			outcome{Do: slot.Create, State: slot.Pending, Generation: 7},
		},
		"a new device is published if nothing uses it": {
			with(device(), func(s *slot.Slot) { s.Content = disk.ContentNone }),
			outcome{Do: slot.FindUsers, State: slot.Pending},
		},
		"nothing does": {
			with(device(), func(s *slot.Slot) { s.Content, s.UsersKnown = disk.ContentNone, true }),
			outcome{Do: slot.Create, State: slot.Pending, Generation: first},
		},
		"something holds it that neither mountinfo nor sysfs shows": {
			with(device(), func(s *slot.Slot) {
				s.Content, s.UsersKnown, s.Users = disk.ContentNone, true, []disk.User{{What: disk.ExclusiveOpen, Where: "/dev/sdb"}}
			}),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.InUse},
		},
		"a clean device, too": {
			with(device(), func(s *slot.Slot) { s.Record, s.Stayed = &disk.Record{State: disk.Clean, Generation: 7}, true }),
			outcome{Do: slot.FindUsers, State: slot.Pending},
		},
		"and one whose class publishes what it finds": {
			with(device(), func(s *slot.Slot) { s.Existing = slot.Publish }),
			outcome{Do: slot.FindUsers, State: slot.Pending},
		},
		"one that was away is looked into": {
			with(found(), func(s *slot.Slot) { s.Record = &disk.Record{State: disk.Clean, Generation: 7} }),
			outcome{Do: slot.Inspect, State: slot.Pending},
		},
		"one that was away and is still empty is published": {
			with(found(), func(s *slot.Slot) {
				s.Record, s.Content = &disk.Record{State: disk.Clean, Generation: 7}, disk.ContentNone
			}),
			outcome{Do: slot.Create, State: slot.Pending, Generation: 7},
		},
		"one that came back with data is refused": {
			with(found(), func(s *slot.Slot) {
				s.Record, s.Content = &disk.Record{State: disk.Clean, Generation: 7}, disk.ContentSome
			}),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.NotEmpty},
		},
		"a device that came back and seems to be blank is read from end to end": {
			with(found(), func(s *slot.Slot) {
				s.Record, s.Content = &disk.Record{State: disk.Clean, Generation: 7}, disk.ContentSampled
			}),
			outcome{Do: slot.ProveBlank, State: slot.Pending, Reason: disk.ProvingBlank},
		},
		"a device that was away since it was cleaned for a file system is not cleaned for mode Block before it is looked into": {
			with(found(), func(s *slot.Slot) {
				s.Record = &disk.Record{State: disk.Clean, Kind: disk.Device, Mode: disk.Filesystem, Generation: 7}
				s.Mode, s.UsersKnown = disk.Block, true
			}),
			outcome{Do: slot.Inspect, State: slot.Pending},
		},
		"a clean disk that was away may have been another node's": {
			with(found(), func(s *slot.Slot) { s.Record, s.Asked = &disk.Record{State: disk.Clean, Generation: 7}, false }),
			outcome{Do: slot.AskNodes, State: slot.Pending},
		},
		"one that was not away is not asked about": {
			with(found(), func(s *slot.Slot) {
				s.Record, s.Asked, s.Stayed = &disk.Record{State: disk.Clean, Generation: 7}, false, true
			}),
			outcome{Do: slot.Create, State: slot.Pending, Generation: 7},
		},
		"a disk that a volume of another node has is left alone": {
			with(found(), func(s *slot.Slot) {
				s.Record, s.ForeignPV = &disk.Record{State: disk.Clean, Generation: 7}, "volume local-pv-9 of node n9"
			}),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.OtherNodesVolume},
		},
		"a device that was cleaned for a file system is cleaned again before it is a volume of mode Block": {
			with(found(), func(s *slot.Slot) {
				s.Record = &disk.Record{State: disk.Clean, Kind: disk.Device, Mode: disk.Filesystem, Generation: 7}
				s.Mode, s.UsersKnown, s.Stayed = disk.Block, true, true
			}),
			outcome{Do: slot.Wipe, State: slot.Cleaning, Generation: 7},
		},
		"one that was zeroed is clean enough for a file system": {
			with(found(), func(s *slot.Slot) {
				s.Record = &disk.Record{State: disk.Clean, Kind: disk.Device, Mode: disk.Block, Generation: 7}
				s.Mode, s.Stayed = disk.Filesystem, true
			}),
			outcome{Do: slot.Create, State: slot.Pending, Generation: 7},
		},
		"a disk whose record is damaged is left alone": {
			with(found(), func(s *slot.Slot) { s.Damaged, s.Content = true, disk.ContentNone }),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.BadRecord},
		},
		"a disk that another slot's volume offers is left alone": {
			with(found(), func(s *slot.Slot) { s.Elsewhere, s.Content = "local-pv-9", disk.ContentNone }),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.SameBytes},
		},
		"a path that a volume of the reference implementation has is left alone": {
			with(found(), func(s *slot.Slot) { s.Foreign, s.Content = "local-pv-8", disk.ContentNone }),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.ForeignVolume},
		},
		"a class that is not configured any more": {
			with(found(), func(s *slot.Slot) { s.Configured = false }),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.NotConfigured},
		},
		"a directory that could not be read says nothing": {
			with(found(), func(s *slot.Slot) { s.Looked, s.Content = false, disk.ContentNone }),
			outcome{Do: slot.None, State: slot.Skipped},
		},
		"an entry with a problem is told with it": {
			with(found(), func(s *slot.Slot) { s.Fact.Problem = disk.Problemf(disk.MountMissing, "fstab has it") }),
			outcome{Do: slot.None, State: slot.Skipped, Reason: disk.MountMissing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decide(test.slot)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPublished(t *testing.T) {
	gone := func(s *slot.Slot) { s.Fact, s.Gone = nil, slot.GoneAfter }
	replaced := func(s *slot.Slot) { s.Fact.Identity, s.Record = "fs:u2:/", nil }
	unproven := func(s *slot.Slot) {
		s.Volume.Identity, s.Fact.Identity, s.Record = "weak:b1:7:1024", "weak:b2:7:1024", nil
	}
	for name, test := range map[string]struct {
		slot *slot.Slot
		want outcome
	}{
		"free and as it was":  {published(disk.PhaseAvailable), outcome{Do: slot.None, State: slot.Available}},
		"bound and as it was": {published(disk.PhaseBound), outcome{Do: slot.None, State: slot.Bound}},
		"free, and gone at one look": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { s.Fact, s.Gone = nil, 1 }),
			outcome{Do: slot.None, State: slot.Available, Reason: disk.Missing},
		},
		"free, and gone": {
			with(published(disk.PhaseAvailable), gone), outcome{Do: slot.Remove, State: slot.Missing, Reason: disk.Missing},
		},
		"free and reserved for a claim by hand, and gone": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { gone(s); s.Volume.Claimed = true }),
			outcome{Do: slot.MarkDisk, State: slot.Missing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"bound, and gone": {
			with(published(disk.PhaseBound), gone), outcome{Do: slot.MarkDisk, State: slot.Missing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"bound, and only the directory beneath the mount is left": {
			with(published(disk.PhaseBound), func(s *slot.Slot) {
				s.Gone, s.Fact = slot.GoneAfter, &disk.Fact{Key: key, Problem: disk.Problemf(disk.MountMissing, "")}
			}),
			outcome{Do: slot.MarkDisk, State: slot.Missing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"mounted again": {published(disk.PhaseBound), outcome{Do: slot.None, State: slot.Bound}},
		"free, and replaced": {
			with(published(disk.PhaseAvailable), replaced), outcome{Do: slot.Remove, State: slot.Replaced, Reason: disk.Replaced},
		},
		"bound, and replaced": {
			with(published(disk.PhaseBound), replaced), outcome{Do: slot.MarkDisk, State: slot.Replaced, Reason: disk.Replaced, Mark: disk.MarkReplaced},
		},
		"free, and grown": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { s.Fact.Bytes *= 2 }),
			outcome{Do: slot.Remove, State: slot.Available, Reason: disk.Grown},
		},
		"bound, and grown": {
			with(published(disk.PhaseBound), func(s *slot.Slot) { s.Fact.Bytes *= 2 }),
			outcome{Do: slot.None, State: slot.Bound, Reason: disk.Grown},
		},
		"free, and perhaps another disk after a restart": {
			with(published(disk.PhaseAvailable), unproven),
			outcome{Do: slot.Remove, State: slot.Unproven, Reason: disk.IdentityUnproven},
		},
		"bound, and perhaps another disk after a restart": {
			with(published(disk.PhaseBound), unproven),
			outcome{Do: slot.None, State: slot.Unproven, Reason: disk.IdentityUnproven},
		},
		"bound, and accepted by an administrator": {
			with(published(disk.PhaseBound), func(s *slot.Slot) { unproven(s); s.Volume.Accepted = "weak:b2:7:1024" }),
			outcome{Do: slot.WriteRecord, State: slot.Bound},
		},
		"adopted, and seen for the first time": {
			with(published(disk.PhaseBound), func(s *slot.Slot) { s.Volume.Identity, s.Record, s.VolumeRecord = "", nil, nil }),
			outcome{Do: slot.WriteRecord, State: slot.Bound},
		},
		"bound, and of another policy than the node remembers": {
			with(published(disk.PhaseBound), func(s *slot.Slot) { s.Volume.Policy = disk.Retain }),
			outcome{Do: slot.WriteRecord, State: slot.Bound},
		},
		"made by hand, with the name of a volume whose disk was cleaned": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { s.Record.State, s.Record.UID = disk.Clean, "0" }),
			outcome{Do: slot.WriteRecord, State: slot.Available},
		},
		"the node has forgotten the disk": {
			with(published(disk.PhaseBound), func(s *slot.Slot) { s.Record, s.VolumeRecord = nil, nil }),
			outcome{Do: slot.WriteRecord, State: slot.Bound},
		},
		"made by hand over a disk that is half cleaned": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { s.Record.State = disk.Cleaning }),
			outcome{Do: slot.Remove, State: slot.Available, Reason: disk.Interrupted},
		},
		"somebody took our finalizer": {
			with(published(disk.PhaseBound), func(s *slot.Slot) { s.Volume.Finalized = false }),
			outcome{Do: slot.AddFinalizer, State: slot.Bound},
		},
		"free, and the node mounts the device elsewhere": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { s.Fact.Problem = disk.Problemf(disk.InUse, "") }),
			outcome{Do: slot.Remove, State: slot.Available, Reason: disk.InUse},
		},
		"free, and does not answer": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { s.Fact.Problem = disk.Problemf(disk.TimedOut, "") }),
			outcome{Do: slot.None, State: slot.Available, Reason: disk.TimedOut},
		},
		"free, and has not answered for a while": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) {
				s.Fact.Problem, s.Fact.Identity, s.Persistent = disk.Problemf(disk.TimedOut, ""), "", true
			}),
			outcome{Do: slot.Remove, State: slot.Failing, Reason: disk.TimedOut},
		},
		"free, and its file system is shut down": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { s.Fact.Problem = disk.Problemf(disk.FilesystemError, "") }),
			outcome{Do: slot.Remove, State: slot.Failing, Reason: disk.FilesystemError},
		},
		"the class is not configured any more": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { s.Configured = false }),
			outcome{Do: slot.None, State: slot.Available, Reason: disk.NotConfigured},
		},
		"the directory could not be read": {
			with(published(disk.PhaseAvailable), func(s *slot.Slot) { gone(s); s.Looked = false }),
			outcome{Do: slot.None, State: slot.Available},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decide(test.slot)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMarks: a volume with a claim says Missing, Replaced or Failing exactly as long as its
// disk is.
func TestMarks(t *testing.T) {
	gone := func(s *slot.Slot) { s.Fact, s.Record, s.Gone = nil, nil, slot.GoneAfter }
	replaced := func(s *slot.Slot) { s.Fact.Identity, s.Record = "fs:u2:/", nil }
	unproven := func(s *slot.Slot) {
		s.Volume.Identity, s.Fact.Identity, s.Record = "weak:b1:7:1024", "weak:b2:7:1024", nil
	}
	problem := func(reason disk.Reason) func(*slot.Slot) {
		return func(s *slot.Slot) { s.Fact.Problem = disk.Problemf(reason, "") }
	}
	silent := func(s *slot.Slot) {
		problem(disk.TimedOut)(s)
		s.Fact.Identity, s.Persistent = "", true
	}
	for name, test := range map[string]struct {
		before disk.Mark
		change []func(*slot.Slot)
		want   outcome
	}{
		"read-only after an error": {
			disk.Unmarked, []func(*slot.Slot){problem(disk.FilesystemError)},
			outcome{Do: slot.MarkDisk, State: slot.Failing, Reason: disk.FilesystemError, Mark: disk.MarkFailing},
		},
		"on a device that rejects writes": {
			disk.Unmarked, []func(*slot.Slot){problem(disk.DeviceReadOnly)},
			outcome{Do: slot.MarkDisk, State: slot.Failing, Reason: disk.DeviceReadOnly, Mark: disk.MarkFailing},
		},
		"mounted read-only": {
			disk.Unmarked, []func(*slot.Slot){problem(disk.ReadOnly)}, outcome{Do: slot.None, State: slot.Bound, Reason: disk.ReadOnly},
		},
		"silent for one look": {
			disk.Unmarked, []func(*slot.Slot){silent, func(s *slot.Slot) { s.Persistent = false }},
			outcome{Do: slot.None, State: slot.Bound, Reason: disk.TimedOut},
		},
		"silent for a while": {
			disk.Unmarked, []func(*slot.Slot){silent},
			outcome{Do: slot.MarkDisk, State: slot.Failing, Reason: disk.TimedOut, Mark: disk.MarkFailing},
		},
		"silent, and marked before the restart": {
			disk.MarkFailing, []func(*slot.Slot){silent, func(s *slot.Slot) { s.Persistent = false }},
			outcome{Do: slot.None, State: slot.Failing, Reason: disk.TimedOut},
		},
		"well again": {disk.MarkFailing, nil, outcome{Do: slot.MarkDisk, State: slot.Bound}},
		"failing, and taken out": {
			disk.MarkFailing, []func(*slot.Slot){gone}, outcome{Do: slot.MarkDisk, State: slot.Missing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"failing, and replaced": {
			disk.MarkFailing, []func(*slot.Slot){replaced, problem(disk.FilesystemError)},
			outcome{Do: slot.MarkDisk, State: slot.Replaced, Reason: disk.Replaced, Mark: disk.MarkReplaced},
		},
		"replaced by one that is silent: only proof ends that it is another one": {
			disk.MarkReplaced, []func(*slot.Slot){silent}, outcome{Do: slot.None, State: slot.Failing, Reason: disk.TimedOut},
		},
		"missing, and marked": {
			disk.MarkMissing, []func(*slot.Slot){gone}, outcome{Do: slot.None, State: slot.Missing, Reason: disk.Missing},
		},
		"replaced, and marked": {
			disk.MarkReplaced, []func(*slot.Slot){replaced}, outcome{Do: slot.None, State: slot.Replaced, Reason: disk.Replaced},
		},
		"missing, then replaced": {
			disk.MarkMissing, []func(*slot.Slot){replaced},
			outcome{Do: slot.MarkDisk, State: slot.Replaced, Reason: disk.Replaced, Mark: disk.MarkReplaced},
		},
		"replaced, and the other one taken out again": {
			disk.MarkReplaced, []func(*slot.Slot){gone},
			outcome{Do: slot.MarkDisk, State: slot.Missing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"back": {disk.MarkReplaced, nil, outcome{Do: slot.MarkDisk, State: slot.Bound}},
		"back, and grown": {
			disk.MarkMissing, []func(*slot.Slot){func(s *slot.Slot) { s.Fact.Bytes *= 2 }},
			outcome{Do: slot.MarkDisk, State: slot.Bound, Reason: disk.Grown},
		},
		"back, and the node uses it": {
			disk.MarkMissing, []func(*slot.Slot){problem(disk.InUse)}, outcome{Do: slot.MarkDisk, State: slot.Bound, Reason: disk.InUse},
		},
		"replaced by one that the node uses": {
			disk.Unmarked, []func(*slot.Slot){replaced, problem(disk.InUse)},
			outcome{Do: slot.MarkDisk, State: slot.Replaced, Reason: disk.Replaced, Mark: disk.MarkReplaced},
		},
		"another one, which an administrator accepts": {
			disk.MarkReplaced, []func(*slot.Slot){replaced, func(s *slot.Slot) { s.Volume.Accepted = "fs:u2:/" }},
			outcome{Do: slot.WriteRecord, State: slot.Bound},
		},
		"away for one look": {
			disk.Unmarked, []func(*slot.Slot){gone, func(s *slot.Slot) { s.Gone = 1 }},
			outcome{Do: slot.None, State: slot.Bound, Reason: disk.Missing},
		},
		"a marked one that was not looked for": {
			disk.MarkMissing, []func(*slot.Slot){gone, func(s *slot.Slot) { s.Looked = false }}, outcome{Do: slot.None, State: slot.Bound},
		},
		"a marked one that does not answer": {
			disk.MarkReplaced, []func(*slot.Slot){problem(disk.TimedOut), func(s *slot.Slot) { s.Fact.Identity = "" }},
			outcome{Do: slot.None, State: slot.Bound, Reason: disk.TimedOut},
		},
		"something is there again, and may be the one that was missing": {
			disk.MarkMissing, []func(*slot.Slot){unproven},
			outcome{Do: slot.MarkDisk, State: slot.Unproven, Reason: disk.IdentityUnproven},
		},
		"it was another one before the restart, and nothing proves that it is not now": {
			disk.MarkReplaced, []func(*slot.Slot){unproven},
			outcome{Do: slot.None, State: slot.Unproven, Reason: disk.IdentityUnproven},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := published(disk.PhaseBound)
			s.Volume.Mark = test.before
			for _, change := range test.change {
				change(s)
			}
			if diff := cmp.Diff(test.want, decide(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestZFSDatasetOfAPool: its size changes whenever a neighbour is written to, so a free volume
// is neither withdrawn nor cleaned for that.
func TestZFSDatasetOfAPool(t *testing.T) {
	for _, phase := range []disk.Phase{disk.PhaseAvailable, disk.PhaseBound} {
		s := published(phase)
		s.Fact.FilesystemType, s.Fact.Bytes = "zfs", s.Fact.Bytes-1<<20
		want := outcome{Do: slot.None, State: slot.State(phase)}
		if diff := cmp.Diff(want, decide(s)); diff != "" {
			t.Errorf("%s: %s", phase, diff)
		}
	}
}

// TestFreeVolumesWhoseDiskWasAway: what a disk was when it was published need not hold when
// it is back, or the node has restarted.
func TestFreeVolumesWhoseDiskWasAway(t *testing.T) {
	available := outcome{Do: slot.None, State: slot.Available}
	for name, test := range map[string]struct {
		change func(*slot.Slot)
		want   outcome
	}{
		"it is looked into":             {func(*slot.Slot) {}, outcome{Do: slot.Inspect, State: slot.Available}},
		"still empty: that is recorded": {func(s *slot.Slot) { s.Content = disk.ContentNone }, outcome{Do: slot.WriteRecord, State: slot.Available}},
		"it holds data: no claim gets the volume": {func(s *slot.Slot) { s.Content = disk.ContentSome },
			outcome{Do: slot.Remove, State: slot.Available, Reason: disk.NotEmpty}},
		"it was not away":                                 {func(s *slot.Slot) { s.Stayed = true }, available},
		"it was published with data":                      {func(s *slot.Slot) { s.Record.Accepted = true }, available},
		"its attachment is not known":                     {func(s *slot.Slot) { s.Record.Attachment = "" }, available},
		"it has a claim by now":                           {func(s *slot.Slot) { s.Volume.Claimed = true }, available},
		"a claim was observed, and removed by hand since": {func(s *slot.Slot) { s.Record.Phase = disk.PhaseReleased }, outcome{Do: slot.WriteRecord, State: slot.Available}},
	} {
		t.Run(name, func(t *testing.T) {
			s := published(disk.PhaseAvailable)
			s.Record.Attachment = "boot1/mount:1"
			test.change(s)
			if diff := cmp.Diff(test.want, decide(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSuccessors: a disk without a record may be the dirty one that was at its path.
func TestSuccessors(t *testing.T) {
	successor := func(state disk.State, policy disk.Policy, change func(*slot.Slot)) *slot.Slot {
		return with(found(), func(s *slot.Slot) {
			s.Predecessors = []disk.Record{{Identity: "weak:b1:1", Key: key, State: state, Policy: policy, Volume: "local-pv-0", Generation: first + 7}}
			s.Unaccounted, s.UsersKnown, s.Content = true, true, disk.ContentSome
			change(s)
		})
	}
	refused := outcome{Do: slot.None, State: slot.Skipped, Reason: disk.IdentityUnproven}
	create := outcome{Do: slot.Create, State: slot.Pending, Generation: first + 8}
	proof := outcome{Do: slot.ProveBlank, State: slot.Pending, Reason: disk.ProvingBlank}
	for name, test := range map[string]struct {
		slot *slot.Slot
		want outcome
	}{
		"its data is not wiped: it may be another disk": {
			successor(disk.Cleaning, disk.Delete, func(*slot.Slot) {}), refused,
		},
		"nor published by a class that publishes what it finds": {
			successor(disk.Published, disk.Delete, func(s *slot.Slot) { s.Existing = slot.Publish }), refused,
		},
		"that class has it looked into": {
			successor(disk.Published, disk.Delete, func(s *slot.Slot) { s.Existing, s.Content = slot.Publish, disk.ContentUnknown }),
			outcome{Do: slot.Inspect, State: slot.Pending},
		},
		"a class that cleans what it finds cleans it": {
			successor(disk.Cleaning, disk.Delete, func(s *slot.Slot) { s.Existing = slot.Clean }),
			outcome{Do: slot.Wipe, State: slot.Cleaning, Generation: first + 8},
		},
		"but not if the data was to be kept": {
			successor(disk.Retained, disk.Retain, func(s *slot.Slot) { s.Existing = slot.Clean }), refused,
		},
		"nor if it is of policy Retain and was not recorded as retained yet": {
			successor(disk.Published, disk.Retain, func(s *slot.Slot) { s.Existing = slot.Clean }), refused,
		},
		"nor if an earlier disk at the path was retained, which may be this one": {
			successor(disk.Cleaning, disk.Delete, func(s *slot.Slot) {
				s.Existing = slot.Clean
				s.Predecessors = append(s.Predecessors, disk.Record{Identity: "weak:b0:1", State: disk.Retained, Policy: disk.Retain, Generation: first})
			}), refused,
		},
		"nor published, if one of them is another cluster's": {
			successor(disk.Retained, disk.Retain, func(s *slot.Slot) {
				s.Content = disk.ContentNone
				s.Predecessors = append(s.Predecessors, disk.Record{Identity: "weak:b0:1", State: disk.Published, Cluster: "there", Generation: first})
			}), outcome{Do: slot.None, State: slot.Skipped, Reason: disk.OtherCluster},
		},
		"if it seems to be blank, it is read from end to end": {
			successor(disk.Cleaning, disk.Delete, func(s *slot.Slot) { s.Content = disk.ContentSampled }), proof,
		},
		"also where the class says that new devices are blank": {
			successor(disk.Cleaning, disk.Delete, func(s *slot.Slot) { s.Content, s.Existing = disk.ContentSampled, slot.AssumeBlank }), proof,
		},
		"once it is proven to be blank, it is published": {
			successor(disk.Cleaning, disk.Delete, func(s *slot.Slot) { s.Content = disk.ContentNone }), create,
		},
		"or once an administrator has acknowledged its data": {
			successor(disk.Cleaning, disk.Delete, func(s *slot.Slot) { s.Acknowledged = true }), create,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decide(test.slot)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
