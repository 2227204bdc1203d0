// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// first is the generation of a disk's first volume.
const first = 100

// found is a slot with an unknown disk.
func found() *decide.Slot {
	return &decide.Slot{
		Key: key, Configured: true, Existing: decide.ExistingRefuse, DirectoryRead: true, Answers: decide.Answers{NodesAsked: true},
		Fact: &disk.Fact{Key: key, HostPath: "/mnt/disks/disk1", Kind: disk.Mount, Identity: "fs:u1:/", Bytes: 10 << 30},
	}
}

// foundDevice is a slot with an unknown block device.
func foundDevice() *decide.Slot {
	s := found()
	s.Fact.Kind, s.Fact.Device, s.Fact.Identity = disk.Device, "/dev/sdb", "wwn:1"
	return s
}

// published is a slot with a volume of the disk.
func published(phase disk.Phase) *decide.Slot {
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

func publish(s *decide.Slot) outcome {
	return outcomeOf(decide.Publish(s, first))
}

func TestCandidates(t *testing.T) {
	for name, test := range map[string]struct {
		slot *decide.Slot
		want outcome
	}{
		"for a new disk the reports of other nodes are searched first": {
			with(found(), func(s *decide.Slot) {
				s.NodesAsked, s.Content, s.Existing = false, disk.ContentNone, decide.ExistingClean
			}),
			outcome{Do: decide.AskNodes, State: stowage.EntryPending},
		},
		"a new disk is inspected": {
			found(), outcome{Do: decide.Inspect, State: stowage.EntryPending},
		},
		"an empty one is published": {
			with(found(), func(s *decide.Slot) { s.Content = disk.ContentNone }),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: first},
		},
		"one with data is refused": {
			with(found(), func(s *decide.Slot) { s.Content, s.Found = disk.ContentSome, "an ext4 signature" }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.NotEmpty},
		},
		"a device that seems to be blank is read from end to end": {
			with(found(), func(s *decide.Slot) { s.Content = disk.ContentSampled }),
			outcome{Do: decide.ProveBlank, State: stowage.EntryPending, Reason: disk.ProvingBlank},
		},
		"so is one that is to become a raw device": {
			with(found(), func(s *decide.Slot) { s.Content, s.Mode = disk.ContentSampled, disk.Block }),
			outcome{Do: decide.ProveBlank, State: stowage.EntryPending, Reason: disk.ProvingBlank},
		},
		"with AssumeBlank it is published": {
			with(found(), func(s *decide.Slot) { s.Content, s.Existing = disk.ContentSampled, decide.ExistingAssumeBlank }),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: first},
		},
		"with AssumeBlank it is inspected too": {
			with(found(), func(s *decide.Slot) { s.Existing = decide.ExistingAssumeBlank }),
			outcome{Do: decide.Inspect, State: stowage.EntryPending},
		},
		"with AssumeBlank data is refused": {
			with(found(), func(s *decide.Slot) { s.Content, s.Existing = disk.ContentSome, decide.ExistingAssumeBlank }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.NotEmpty},
		},
		"with AssumeBlank a device that may be a dirty one is read from end to end": {
			with(found(), func(s *decide.Slot) {
				s.Content, s.Existing, s.Unaccounted = disk.ContentSampled, decide.ExistingAssumeBlank, true
			}),
			outcome{Do: decide.ProveBlank, State: stowage.EntryPending, Reason: disk.ProvingBlank},
		},
		"with existingData Clean a device is cleaned without being read": {
			with(found(), func(s *decide.Slot) {
				s.Content, s.Existing, s.UsersKnown = disk.ContentSampled, decide.ExistingClean, true
			}),
			outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: first},
		},
		"one with data is published once an administrator has acknowledged it": {
			with(found(), func(s *decide.Slot) { s.Content, s.Acknowledged = disk.ContentSome, true }),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: first},
		},
		"with existingData Publish one with data is published": {
			with(found(), func(s *decide.Slot) { s.Existing = decide.ExistingPublish }),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: first},
		},
		"with existingData Clean one with data is cleaned if unused": {
			with(found(), func(s *decide.Slot) { s.Existing, s.Content = decide.ExistingClean, disk.ContentSome }),
			outcome{Do: decide.FindUsers, State: stowage.EntryPending},
		},
		"with existingData Clean one with data that is unused": {
			with(found(), func(s *decide.Slot) {
				s.Existing, s.Content, s.UsersKnown = decide.ExistingClean, disk.ContentSome, true
			}),
			outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: first},
		},
		"with existingData Clean one with data that is used": {
			with(found(), func(s *decide.Slot) {
				s.Existing, s.Content, s.UsersKnown, s.Users = decide.ExistingClean, disk.ContentSome, true, []disk.User{{What: "mount", Where: "/data"}}
			}),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.InUse},
		},
		"a clean disk is published without inspection": {
			with(found(), func(s *decide.Slot) { s.Record, s.Stayed = &disk.Record{State: disk.Clean, Generation: 7}, true }),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: 7},
		},
		"a new device is published if nothing uses it": {
			with(foundDevice(), func(s *decide.Slot) { s.Content = disk.ContentNone }),
			outcome{Do: decide.FindUsers, State: stowage.EntryPending},
		},
		"a new device that nothing uses": {
			with(foundDevice(), func(s *decide.Slot) { s.Content, s.UsersKnown = disk.ContentNone, true }),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: first},
		},
		"a new device whose use neither mountinfo nor sysfs shows": {
			with(foundDevice(), func(s *decide.Slot) {
				s.Content, s.UsersKnown, s.Users = disk.ContentNone, true, []disk.User{{What: disk.ExclusiveOpen, Where: "/dev/sdb"}}
			}),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.InUse},
		},
		"a clean device is published if nothing uses it": {
			with(foundDevice(), func(s *decide.Slot) { s.Record, s.Stayed = &disk.Record{State: disk.Clean, Generation: 7}, true }),
			outcome{Do: decide.FindUsers, State: stowage.EntryPending},
		},
		"with existingData Publish a device is published if nothing uses it": {
			with(foundDevice(), func(s *decide.Slot) { s.Existing = decide.ExistingPublish }),
			outcome{Do: decide.FindUsers, State: stowage.EntryPending},
		},
		"a clean disk that was away is inspected": {
			with(found(), func(s *decide.Slot) { s.Record = &disk.Record{State: disk.Clean, Generation: 7} }),
			outcome{Do: decide.Inspect, State: stowage.EntryPending},
		},
		"a clean disk that was away and is still empty is published": {
			with(found(), func(s *decide.Slot) {
				s.Record, s.Content = &disk.Record{State: disk.Clean, Generation: 7}, disk.ContentNone
			}),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: 7},
		},
		"a clean disk that came back with data is refused": {
			with(found(), func(s *decide.Slot) {
				s.Record, s.Content = &disk.Record{State: disk.Clean, Generation: 7}, disk.ContentSome
			}),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.NotEmpty},
		},
		"a device that came back and seems to be blank is read from end to end": {
			with(found(), func(s *decide.Slot) {
				s.Record, s.Content = &disk.Record{State: disk.Clean, Generation: 7}, disk.ContentSampled
			}),
			outcome{Do: decide.ProveBlank, State: stowage.EntryPending, Reason: disk.ProvingBlank},
		},
		"a device that was away since it was cleaned for a file system is not cleaned for mode Block before it is inspected": {
			with(found(), func(s *decide.Slot) {
				s.Record = &disk.Record{State: disk.Clean, Kind: disk.Device, Mode: disk.Filesystem, Generation: 7}
				s.Mode, s.UsersKnown = disk.Block, true
			}),
			outcome{Do: decide.Inspect, State: stowage.EntryPending},
		},
		"a clean disk that was away may have been another node's": {
			with(found(), func(s *decide.Slot) { s.Record, s.NodesAsked = &disk.Record{State: disk.Clean, Generation: 7}, false }),
			outcome{Do: decide.AskNodes, State: stowage.EntryPending},
		},
		"a clean disk that was not away: reports are not searched": {
			with(found(), func(s *decide.Slot) {
				s.Record, s.NodesAsked, s.Stayed = &disk.Record{State: disk.Clean, Generation: 7}, false, true
			}),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: 7},
		},
		"a disk that a volume of another node has is skipped": {
			with(found(), func(s *decide.Slot) {
				s.Record, s.ForeignPV = &disk.Record{State: disk.Clean, Generation: 7}, "volume local-pv-9 of node n9"
			}),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.OtherNodesVolume},
		},
		"a device that was cleaned for a file system is cleaned again before it is a volume of mode Block": {
			with(found(), func(s *decide.Slot) {
				s.Record = &disk.Record{State: disk.Clean, Kind: disk.Device, Mode: disk.Filesystem, Generation: 7}
				s.Mode, s.UsersKnown, s.Stayed = disk.Block, true, true
			}),
			outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7},
		},
		"a device that was zeroed is published for a file system": {
			with(found(), func(s *decide.Slot) {
				s.Record = &disk.Record{State: disk.Clean, Kind: disk.Device, Mode: disk.Block, Generation: 7}
				s.Mode, s.Stayed = disk.Filesystem, true
			}),
			outcome{Do: decide.Create, State: stowage.EntryPending, Generation: 7},
		},
		"a disk whose record is damaged is skipped": {
			with(found(), func(s *decide.Slot) { s.Damaged, s.Content = true, disk.ContentNone }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.BadRecord},
		},
		"a disk that another slot's volume offers is skipped": {
			with(found(), func(s *decide.Slot) { s.DuplicatePV, s.Content = "local-pv-9", disk.ContentNone }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.SameBytes},
		},
		"a path that a volume of the reference implementation has is skipped": {
			with(found(), func(s *decide.Slot) { s.UnmanagedPV, s.Content = "local-pv-8", disk.ContentNone }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.ForeignVolume},
		},
		"a class that is no longer configured": {
			with(found(), func(s *decide.Slot) { s.Configured = false }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.NotConfigured},
		},
		"a directory that could not be read": {
			with(found(), func(s *decide.Slot) { s.DirectoryRead, s.Content = false, disk.ContentNone }),
			outcome{Do: decide.None, State: stowage.EntrySkipped},
		},
		"an entry with a problem is reported": {
			with(found(), func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.MountMissing, "fstab has it") }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.MountMissing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, publish(test.slot)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMoveVolume: the volume of a class that got another folder gets the slot of its device there.
func TestMoveVolume(t *testing.T) {
	displaced := func(change ...func(*decide.Slot)) *decide.Slot {
		s := foundDevice()
		s.Volume, s.Displaced, s.DuplicatePV = nil, &disk.Volume{Name: "local-pv-1", Key: key, Link: "/dev/stowage/disks/fast/local-pv-1", Identity: "wwn:1", Phase: disk.PhaseBound}, "local-pv-1"
		s.Record = &disk.Record{Identity: "wwn:1", State: disk.Published, Volume: "local-pv-1"}
		return with(s, change...)
	}
	move, skip := outcome{Do: decide.MoveVolume, State: stowage.EntryPending}, outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.SameBytes}
	for name, test := range map[string]struct {
		slot *decide.Slot
		want outcome
	}{
		"with a record":                            {displaced(), move},
		"without a record":                         {displaced(func(s *decide.Slot) { s.Record = nil }), move},
		"of a disk that the rules do not select":   {displaced(func(s *decide.Slot) { s.ByRule, s.Configured = true, false }), move},
		"that a pod uses":                          {displaced(func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.InUse, "mounted") }), move},
		"that is used by its own path":             {displaced(func(s *decide.Slot) { s.Displaced.Link = "" }), skip},
		"of which there are others":                {displaced(func(s *decide.Slot) { s.Displaced = nil }), skip},
		"of a device that has the same name now":   {displaced(func(s *decide.Slot) { s.Fact.Identity = "wwn:2" }), skip},
		"of a device whose identity is not unique": {displaced(func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.SharedIdentity, "copies") }), outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.SharedIdentity}},
		"of a file system":                         {displaced(func(s *decide.Slot) { s.Fact.Kind = disk.Mount }), skip},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, outcomeOf(decide.Decide(test.slot, first))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPublished(t *testing.T) {
	gone := func(s *decide.Slot) { s.Fact, s.MissedScans = nil, decide.AbsentAfter }
	replaced := func(s *decide.Slot) { s.Fact.Identity, s.Record = "fs:u2:/", nil }
	unproven := func(s *decide.Slot) {
		s.Volume.Identity, s.Fact.Identity, s.Record = "weak:b1:7:1024", "weak:b2:7:1024", nil
	}
	for name, test := range map[string]struct {
		slot *decide.Slot
		want outcome
	}{
		"free, unchanged":  {published(disk.PhaseAvailable), outcome{Do: decide.None, State: stowage.EntryAvailable}},
		"bound, unchanged": {published(disk.PhaseBound), outcome{Do: decide.None, State: stowage.EntryBound}},
		"free, and gone in one scan": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { s.Fact, s.MissedScans = nil, 1 }),
			outcome{Do: decide.None, State: stowage.EntryAvailable, Reason: disk.Missing},
		},
		"free, and gone": {
			with(published(disk.PhaseAvailable), gone), outcome{Do: decide.DeleteVolume, State: stowage.EntryMissing, Reason: disk.Missing},
		},
		"free and reserved for a claim by hand, and gone": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { gone(s); s.Volume.Claimed = true }),
			outcome{Do: decide.MarkDisk, State: stowage.EntryMissing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"bound, and gone": {
			with(published(disk.PhaseBound), gone), outcome{Do: decide.MarkDisk, State: stowage.EntryMissing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"bound, and only the directory below the mount is left": {
			with(published(disk.PhaseBound), func(s *decide.Slot) {
				s.MissedScans, s.Fact = decide.AbsentAfter, &disk.Fact{Key: key, Problem: disk.Problemf(disk.MountMissing, "")}
			}),
			outcome{Do: decide.MarkDisk, State: stowage.EntryMissing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"bound, and mounted again": {published(disk.PhaseBound), outcome{Do: decide.None, State: stowage.EntryBound}},
		"free, and replaced": {
			with(published(disk.PhaseAvailable), replaced), outcome{Do: decide.DeleteVolume, State: stowage.EntryReplaced, Reason: disk.Replaced},
		},
		"bound, and replaced": {
			with(published(disk.PhaseBound), replaced), outcome{Do: decide.MarkDisk, State: stowage.EntryReplaced, Reason: disk.Replaced, Mark: disk.MarkReplaced},
		},
		"free, and grown": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { s.Fact.Bytes *= 2 }),
			outcome{Do: decide.DeleteVolume, State: stowage.EntryAvailable, Reason: disk.Grown},
		},
		"bound, and grown": {
			with(published(disk.PhaseBound), func(s *decide.Slot) { s.Fact.Bytes *= 2 }),
			outcome{Do: decide.None, State: stowage.EntryBound, Reason: disk.Grown},
		},
		"free, and perhaps another disk after a restart": {
			with(published(disk.PhaseAvailable), unproven),
			outcome{Do: decide.DeleteVolume, State: stowage.EntryUnproven, Reason: disk.IdentityUnproven},
		},
		"bound, and perhaps another disk after a restart": {
			with(published(disk.PhaseBound), unproven),
			outcome{Do: decide.None, State: stowage.EntryUnproven, Reason: disk.IdentityUnproven},
		},
		"bound, and accepted by an administrator": {
			with(published(disk.PhaseBound), func(s *decide.Slot) { unproven(s); s.Volume.Accepted = "weak:b2:7:1024" }),
			outcome{Do: decide.WriteRecord, State: stowage.EntryBound},
		},
		"adopted, and observed for the first time": {
			with(published(disk.PhaseBound), func(s *decide.Slot) { s.Volume.Identity, s.Record, s.VolumeRecord = "", nil, nil }),
			outcome{Do: decide.WriteRecord, State: stowage.EntryBound},
		},
		"bound, and of another policy than recorded": {
			with(published(disk.PhaseBound), func(s *decide.Slot) { s.Volume.Policy = disk.Retain }),
			outcome{Do: decide.WriteRecord, State: stowage.EntryBound},
		},
		"made by hand, with the name of a volume whose disk was cleaned": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { s.Record.State, s.Record.UID = disk.Clean, "0" }),
			outcome{Do: decide.WriteRecord, State: stowage.EntryAvailable},
		},
		"the disk has no record": {
			with(published(disk.PhaseBound), func(s *decide.Slot) { s.Record, s.VolumeRecord = nil, nil }),
			outcome{Do: decide.WriteRecord, State: stowage.EntryBound},
		},
		"made by hand over a disk that is half cleaned": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { s.Record.State = disk.Cleaning }),
			outcome{Do: decide.DeleteVolume, State: stowage.EntryAvailable, Reason: disk.Interrupted},
		},
		"the finalizer was removed": {
			with(published(disk.PhaseBound), func(s *decide.Slot) { s.Volume.Finalized = false }),
			outcome{Do: decide.AddFinalizer, State: stowage.EntryBound},
		},
		"free, and the node mounts the device elsewhere": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.InUse, "") }),
			outcome{Do: decide.DeleteVolume, State: stowage.EntryAvailable, Reason: disk.InUse},
		},
		"free, and does not answer": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.TimedOut, "") }),
			outcome{Do: decide.None, State: stowage.EntryAvailable, Reason: disk.TimedOut},
		},
		"free, and persistently does not answer": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) {
				s.Fact.Problem, s.Fact.Identity, s.Persistent = disk.Problemf(disk.TimedOut, ""), "", true
			}),
			outcome{Do: decide.DeleteVolume, State: stowage.EntryFailing, Reason: disk.TimedOut},
		},
		"free, and its file system is shut down": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.FilesystemError, "") }),
			outcome{Do: decide.DeleteVolume, State: stowage.EntryFailing, Reason: disk.FilesystemError},
		},
		"the class is no longer configured": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { s.Configured = false }),
			outcome{Do: decide.None, State: stowage.EntryAvailable, Reason: disk.NotConfigured},
		},
		"the directory could not be read": {
			with(published(disk.PhaseAvailable), func(s *decide.Slot) { gone(s); s.DirectoryRead = false }),
			outcome{Do: decide.None, State: stowage.EntryAvailable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, publish(test.slot)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMarks: a volume with a claim is marked Missing, Replaced or Failing while its disk is in
// that state.
func TestMarks(t *testing.T) {
	gone := func(s *decide.Slot) { s.Fact, s.Record, s.MissedScans = nil, nil, decide.AbsentAfter }
	replaced := func(s *decide.Slot) { s.Fact.Identity, s.Record = "fs:u2:/", nil }
	unproven := func(s *decide.Slot) {
		s.Volume.Identity, s.Fact.Identity, s.Record = "weak:b1:7:1024", "weak:b2:7:1024", nil
	}
	problem := func(reason disk.Reason) func(*decide.Slot) {
		return func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(reason, "") }
	}
	hung := func(s *decide.Slot) {
		problem(disk.TimedOut)(s)
		s.Fact.Identity, s.Persistent = "", true
	}
	for name, test := range map[string]struct {
		before disk.Mark
		change []func(*decide.Slot)
		want   outcome
	}{
		"read-only after an error": {
			disk.Unmarked, []func(*decide.Slot){problem(disk.FilesystemError)},
			outcome{Do: decide.MarkDisk, State: stowage.EntryFailing, Reason: disk.FilesystemError, Mark: disk.MarkFailing},
		},
		"on a device that rejects writes": {
			disk.Unmarked, []func(*decide.Slot){problem(disk.DeviceReadOnly)},
			outcome{Do: decide.MarkDisk, State: stowage.EntryFailing, Reason: disk.DeviceReadOnly, Mark: disk.MarkFailing},
		},
		"mounted read-only": {
			disk.Unmarked, []func(*decide.Slot){problem(disk.ReadOnly)}, outcome{Do: decide.None, State: stowage.EntryBound, Reason: disk.ReadOnly},
		},
		"no answer in one scan": {
			disk.Unmarked, []func(*decide.Slot){hung, func(s *decide.Slot) { s.Persistent = false }},
			outcome{Do: decide.None, State: stowage.EntryBound, Reason: disk.TimedOut},
		},
		"persistently no answer": {
			disk.Unmarked, []func(*decide.Slot){hung},
			outcome{Do: decide.MarkDisk, State: stowage.EntryFailing, Reason: disk.TimedOut, Mark: disk.MarkFailing},
		},
		"no answer, and marked before the restart": {
			disk.MarkFailing, []func(*decide.Slot){hung, func(s *decide.Slot) { s.Persistent = false }},
			outcome{Do: decide.None, State: stowage.EntryFailing, Reason: disk.TimedOut},
		},
		"healthy again": {disk.MarkFailing, nil, outcome{Do: decide.MarkDisk, State: stowage.EntryBound}},
		"failing, and removed": {
			disk.MarkFailing, []func(*decide.Slot){gone}, outcome{Do: decide.MarkDisk, State: stowage.EntryMissing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"failing, and replaced": {
			disk.MarkFailing, []func(*decide.Slot){replaced, problem(disk.FilesystemError)},
			outcome{Do: decide.MarkDisk, State: stowage.EntryReplaced, Reason: disk.Replaced, Mark: disk.MarkReplaced},
		},
		"replaced by a disk that does not answer: Replaced stays until proof": {
			disk.MarkReplaced, []func(*decide.Slot){hung}, outcome{Do: decide.None, State: stowage.EntryFailing, Reason: disk.TimedOut},
		},
		"missing, and marked": {
			disk.MarkMissing, []func(*decide.Slot){gone}, outcome{Do: decide.None, State: stowage.EntryMissing, Reason: disk.Missing},
		},
		"replaced, and marked": {
			disk.MarkReplaced, []func(*decide.Slot){replaced}, outcome{Do: decide.None, State: stowage.EntryReplaced, Reason: disk.Replaced},
		},
		"missing, then replaced": {
			disk.MarkMissing, []func(*decide.Slot){replaced},
			outcome{Do: decide.MarkDisk, State: stowage.EntryReplaced, Reason: disk.Replaced, Mark: disk.MarkReplaced},
		},
		"replaced, and the other disk removed again": {
			disk.MarkReplaced, []func(*decide.Slot){gone},
			outcome{Do: decide.MarkDisk, State: stowage.EntryMissing, Reason: disk.Missing, Mark: disk.MarkMissing},
		},
		"the disk is back": {disk.MarkReplaced, nil, outcome{Do: decide.MarkDisk, State: stowage.EntryBound}},
		"the disk is back, and grown": {
			disk.MarkMissing, []func(*decide.Slot){func(s *decide.Slot) { s.Fact.Bytes *= 2 }},
			outcome{Do: decide.MarkDisk, State: stowage.EntryBound, Reason: disk.Grown},
		},
		"the disk is back, and the node uses it": {
			disk.MarkMissing, []func(*decide.Slot){problem(disk.InUse)}, outcome{Do: decide.MarkDisk, State: stowage.EntryBound, Reason: disk.InUse},
		},
		"replaced by a disk that the node uses": {
			disk.Unmarked, []func(*decide.Slot){replaced, problem(disk.InUse)},
			outcome{Do: decide.MarkDisk, State: stowage.EntryReplaced, Reason: disk.Replaced, Mark: disk.MarkReplaced},
		},
		"replaced by a disk that an administrator accepts": {
			disk.MarkReplaced, []func(*decide.Slot){replaced, func(s *decide.Slot) { s.Volume.Accepted = "fs:u2:/" }},
			outcome{Do: decide.WriteRecord, State: stowage.EntryBound},
		},
		"missing in one scan": {
			disk.Unmarked, []func(*decide.Slot){gone, func(s *decide.Slot) { s.MissedScans = 1 }},
			outcome{Do: decide.None, State: stowage.EntryBound, Reason: disk.Missing},
		},
		"marked, and the directory was not read": {
			disk.MarkMissing, []func(*decide.Slot){gone, func(s *decide.Slot) { s.DirectoryRead = false }}, outcome{Do: decide.None, State: stowage.EntryBound},
		},
		"marked, and the disk does not answer": {
			disk.MarkReplaced, []func(*decide.Slot){problem(disk.TimedOut), func(s *decide.Slot) { s.Fact.Identity = "" }},
			outcome{Do: decide.None, State: stowage.EntryBound, Reason: disk.TimedOut},
		},
		"marked Missing, and a disk is at the path that may be the volume's": {
			disk.MarkMissing, []func(*decide.Slot){unproven},
			outcome{Do: decide.MarkDisk, State: stowage.EntryUnproven, Reason: disk.IdentityUnproven},
		},
		"marked Replaced, and a disk is at the path that may be the volume's": {
			disk.MarkReplaced, []func(*decide.Slot){unproven},
			outcome{Do: decide.None, State: stowage.EntryUnproven, Reason: disk.IdentityUnproven},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := published(disk.PhaseBound)
			s.Volume.Mark = test.before
			for _, change := range test.change {
				change(s)
			}
			if diff := cmp.Diff(test.want, publish(s)); diff != "" {
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
		want := outcome{Do: decide.None, State: stowage.EntryState(phase)}
		if diff := cmp.Diff(want, publish(s)); diff != "" {
			t.Errorf("%s: %s", phase, diff)
		}
	}
}

// TestFreeVolumesWhoseDiskWasAway: after a detach or a restart of the node, a disk may hold
// other data than when it was published.
func TestFreeVolumesWhoseDiskWasAway(t *testing.T) {
	available := outcome{Do: decide.None, State: stowage.EntryAvailable}
	for name, test := range map[string]struct {
		change func(*decide.Slot)
		want   outcome
	}{
		"it is inspected":                         {func(*decide.Slot) {}, outcome{Do: decide.Inspect, State: stowage.EntryAvailable}},
		"still empty: the attachment is recorded": {func(s *decide.Slot) { s.Content = disk.ContentNone }, outcome{Do: decide.WriteRecord, State: stowage.EntryAvailable}},
		"it holds data: the volume is deleted": {func(s *decide.Slot) { s.Content = disk.ContentSome },
			outcome{Do: decide.DeleteVolume, State: stowage.EntryAvailable, Reason: disk.NotEmpty}},
		"it was not away":                                 {func(s *decide.Slot) { s.Stayed = true }, available},
		"it was published with data":                      {func(s *decide.Slot) { s.Record.Accepted = true }, available},
		"its attachment is not known":                     {func(s *decide.Slot) { s.Record.Attachment = "" }, available},
		"it has a claim by now":                           {func(s *decide.Slot) { s.Volume.Claimed = true }, available},
		"a claim was observed, and removed by hand since": {func(s *decide.Slot) { s.Record.Phase = disk.PhaseReleased }, outcome{Do: decide.WriteRecord, State: stowage.EntryAvailable}},
	} {
		t.Run(name, func(t *testing.T) {
			s := published(disk.PhaseAvailable)
			s.Record.Attachment = "boot1/mount:1"
			test.change(s)
			if diff := cmp.Diff(test.want, publish(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSuccessors: a disk without a record may be the dirty one that was at its path.
func TestSuccessors(t *testing.T) {
	successor := func(state disk.State, policy disk.Policy, change func(*decide.Slot)) *decide.Slot {
		return with(found(), func(s *decide.Slot) {
			s.Predecessors = []disk.Record{{Identity: "weak:b1:1", Key: key, State: state, Policy: policy, Volume: "local-pv-0", Generation: first + 7}}
			s.Unaccounted, s.UsersKnown, s.Content = true, true, disk.ContentSome
			change(s)
		})
	}
	refused := outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.IdentityUnproven}
	create := outcome{Do: decide.Create, State: stowage.EntryPending, Generation: first + 8}
	proof := outcome{Do: decide.ProveBlank, State: stowage.EntryPending, Reason: disk.ProvingBlank}
	for name, test := range map[string]struct {
		slot *decide.Slot
		want outcome
	}{
		"its data is not cleaned: it may be another disk": {
			successor(disk.Cleaning, disk.Delete, func(*decide.Slot) {}), refused,
		},
		"nor published with existingData Publish": {
			successor(disk.Published, disk.Delete, func(s *decide.Slot) { s.Existing = decide.ExistingPublish }), refused,
		},
		"with existingData Publish it is inspected": {
			successor(disk.Published, disk.Delete, func(s *decide.Slot) { s.Existing, s.Content = decide.ExistingPublish, disk.ContentUnknown }),
			outcome{Do: decide.Inspect, State: stowage.EntryPending},
		},
		"with existingData Clean it is cleaned": {
			successor(disk.Cleaning, disk.Delete, func(s *decide.Slot) { s.Existing = decide.ExistingClean }),
			outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: first + 8},
		},
		"with existingData Clean, and the data was to be kept": {
			successor(disk.Retained, disk.Retain, func(s *decide.Slot) { s.Existing = decide.ExistingClean }), refused,
		},
		"with existingData Clean, and policy Retain, not recorded as retained yet": {
			successor(disk.Published, disk.Retain, func(s *decide.Slot) { s.Existing = decide.ExistingClean }), refused,
		},
		"with existingData Clean, and an earlier disk at the path was retained": {
			successor(disk.Cleaning, disk.Delete, func(s *decide.Slot) {
				s.Existing = decide.ExistingClean
				s.Predecessors = append(s.Predecessors, disk.Record{Identity: "weak:b0:1", State: disk.Retained, Policy: disk.Retain, Generation: first})
			}), refused,
		},
		"empty, and one of the former disks is another cluster's": {
			successor(disk.Retained, disk.Retain, func(s *decide.Slot) {
				s.Content = disk.ContentNone
				s.Predecessors = append(s.Predecessors, disk.Record{Identity: "weak:b0:1", State: disk.Published, Cluster: "there", Generation: first})
			}), outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.OtherCluster},
		},
		"a device that seems to be blank is read from end to end": {
			successor(disk.Cleaning, disk.Delete, func(s *decide.Slot) { s.Content = disk.ContentSampled }), proof,
		},
		"a device that seems to be blank, with AssumeBlank": {
			successor(disk.Cleaning, disk.Delete, func(s *decide.Slot) { s.Content, s.Existing = disk.ContentSampled, decide.ExistingAssumeBlank }), proof,
		},
		"a device that is proven to be blank is published": {
			successor(disk.Cleaning, disk.Delete, func(s *decide.Slot) { s.Content = disk.ContentNone }), create,
		},
		"after an administrator has acknowledged its data it is published": {
			successor(disk.Cleaning, disk.Delete, func(s *decide.Slot) { s.Acknowledged = true }), create,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, publish(test.slot)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotConfigured: a volume that is no longer configured stays and is reported, whether its
// directory is scanned or not.
func TestNotConfigured(t *testing.T) {
	for name, change := range map[string]func(*decide.Slot){
		"the class is gone":           func(s *decide.Slot) { s.Configured, s.DirectoryRead, s.Fact = false, false, nil },
		"no pattern matches the name": func(s *decide.Slot) { s.Configured = false },
		"the class was not scanned":   func(s *decide.Slot) { s.DirectoryRead, s.Fact = false, nil },
	} {
		t.Run(name, func(t *testing.T) {
			for _, phase := range []disk.Phase{disk.PhaseAvailable, disk.PhaseBound} {
				s := published(phase)
				change(s)
				d := decide.Publish(s, first)
				if named := d.Problem != nil && d.Problem.Reason == disk.NotConfigured; d.Do != decide.None || named == s.Configured {
					t.Errorf("%s: %+v (%v), want nothing to be done, and NotConfigured if it is not", phase, d, d.Problem)
				}
			}
		})
	}
}

// TestNoLongerSelected: a volume whose disk the rules of its class no longer select is deleted if
// nothing is lost by that.
func TestNoLongerSelected(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*decide.Slot)
		want   outcome
	}{
		"free":                    {func(*decide.Slot) {}, outcome{Do: decide.DeleteVolume, State: stowage.EntryAvailable, Reason: disk.NotConfigured}},
		"about to be bound":       {func(s *decide.Slot) { s.Volume.Claimed = true }, outcome{Do: decide.None, State: stowage.EntryAvailable, Reason: disk.NotConfigured}},
		"with acknowledged data":  {func(s *decide.Slot) { s.Record.Accepted = true }, outcome{Do: decide.None, State: stowage.EntryAvailable, Reason: disk.NotConfigured}},
		"selected":                {func(s *decide.Slot) { s.Configured = true }, outcome{Do: decide.None, State: stowage.EntryAvailable}},
		"the devices are unknown": {func(s *decide.Slot) { s.DirectoryRead = false }, outcome{Do: decide.None, State: stowage.EntryAvailable, Reason: disk.NotConfigured}},
	} {
		t.Run(name, func(t *testing.T) {
			s := published(disk.PhaseAvailable)
			s.ByRule, s.Configured = true, false
			tc.change(s)
			if diff := cmp.Diff(tc.want, publish(s)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	s := found()
	s.ByRule, s.Configured = true, false
	if got := publish(s); got != (outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.NotConfigured}) {
		t.Errorf("a disk without a volume: %+v", got)
	}
}
