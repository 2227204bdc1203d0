// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

var key = disk.Key{Class: "local-fast", Name: "disk1"}

// released is a slot with a released volume whose disk is unused.
func released() *decide.Slot {
	s := &decide.Slot{
		Key: key, Configured: true, Existing: decide.ExistingRefuse, DirectoryRead: true, Answers: decide.Answers{UsersKnown: true, NodesAsked: true},
		Fact: &disk.Fact{Key: key, HostPath: "/mnt/disks/disk1", Kind: disk.Mount, Identity: "fs:u1:/", Bytes: 10 << 30},
		Volume: &disk.Volume{
			Name: "local-pv-1", UID: "1", Key: key, HostPath: "/mnt/disks/disk1", Identity: "fs:u1:/", Bytes: 10 << 30,
			Generation: 7, Phase: disk.PhaseReleased, Policy: disk.Delete, Finalized: true, Claimed: true,
		},
		Record: &disk.Record{
			Identity: "fs:u1:/", Key: key, State: disk.Published, Volume: "local-pv-1", UID: "1", Generation: 7, Policy: disk.Delete, Phase: disk.PhaseReleased,
		},
	}
	s.VolumeRecord = s.Record
	return s
}

// deleting is the same with the volume being deleted.
func deleting() *decide.Slot {
	return with(released(), func(s *decide.Slot) { s.Volume.Deleting = true })
}

// vanished is a slot whose volume was released and is gone. The grace period since then has
// ended, and the controller allows the clean.
func vanished(state disk.State, policy disk.Policy) *decide.Slot {
	return with(released(), func(s *decide.Slot) {
		s.Volume, s.VolumeRecord = nil, nil
		s.Record.State, s.Record.Policy = state, policy
		s.Record.Missed, s.GraceOver, s.CleanAllowed = time.Unix(1, 0), true, true
	})
}

func with(s *decide.Slot, changes ...func(*decide.Slot)) *decide.Slot {
	for _, change := range changes {
		change(s)
	}
	return s
}

func gone(s *decide.Slot)     { s.Fact, s.Record, s.MissedScans = nil, nil, decide.AbsentAfter }
func replaced(s *decide.Slot) { s.Fact.Identity, s.Record = "fs:u2:/", nil }
func unproven(s *decide.Slot) {
	s.Volume.Identity, s.Fact.Identity, s.Record = "weak:b1:7:1024", "weak:b2:7:1024", nil
}
func foreign(s *decide.Slot) { s.UnmanagedPV = "local-pv-1" }
func used(s *decide.Slot)    { s.Users = []disk.User{{What: "kubelet", Where: "/var/lib/kubelet/pods/1"}} }

func policy(p disk.Policy) func(*decide.Slot) {
	return func(s *decide.Slot) {
		s.Volume.Policy = p
		s.Record.Policy = p
	}
}

func state(st disk.State) func(*decide.Slot) { return func(s *decide.Slot) { s.Record.State = st } }

func uid(u string) func(*decide.Slot) { return func(s *decide.Slot) { s.Record.UID = u } }

// phase sets the phase of the volume and of its record.
func phase(p disk.Phase) func(*decide.Slot) {
	return func(s *decide.Slot) {
		s.Volume.Phase = p
		s.Record.Phase = s.Volume.Seen()
	}
}

// last sets the last observed phase of a volume that is gone.
func last(p disk.Phase) func(*decide.Slot) { return func(s *decide.Slot) { s.Record.Phase = p } }

func content(c disk.Content) func(*decide.Slot) { return func(s *decide.Slot) { s.Content = c } }

func otherCluster(s *decide.Slot) { s.Cluster, s.Record.Cluster = "here", "there" }

func acknowledged(s *decide.Slot) { s.Acknowledged = true }

// outcome is a decision without its message.
type outcome struct {
	Do         decide.Action
	State      stowage.EntryState
	Reason     disk.Reason
	Generation int64
	Mark       disk.Mark
}

func outcomeOf(d decide.Decision) outcome {
	o := outcome{Do: d.Do, State: d.State, Generation: d.Generation, Mark: d.Mark}
	if d.Problem != nil {
		o.Reason = d.Problem.Reason
	}
	return o
}

func reclaim(t *testing.T, s *decide.Slot) outcome {
	t.Helper()
	if !decide.ForReclaim(s) {
		t.Fatal("the slot is not ForReclaim")
	}
	return outcomeOf(decide.Reclaim(s))
}

// TestDisksOfAKilledProvisioner: a killed process that cannot end may still write to the disk.
func TestDisksOfAKilledProvisioner(t *testing.T) {
	unfinished := func(s *decide.Slot) { s.Cleaner, s.UsersKnown = 4711, false }
	untouched := outcome{Do: decide.None, State: stowage.EntryCleaning, Reason: disk.TimedOut}
	run(t, map[string]reclaimCase{
		"half cleaned, with a volume":         {with(deleting(), state(disk.Cleaning), unfinished), untouched},
		"half cleaned, without one":           {with(vanished(disk.Cleaning, disk.Delete), unfinished), untouched},
		"another cluster's, and acknowledged": {with(vanished(disk.Cleaning, disk.Delete), otherCluster, acknowledged, unfinished), untouched},
		"after the process has ended": {with(deleting(), state(disk.Cleaning), func(s *decide.Slot) { s.UsersKnown = true }),
			outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7}},
	})
}

// TestDeletedFreeVolumes: a volume without a claim is deleted, by hand or because its disk was
// absent for a moment. Data that is on the disk after it was away is not the volume's.
func TestDeletedFreeVolumes(t *testing.T) {
	free := func(changes ...func(*decide.Slot)) *decide.Slot {
		s := deleting()
		s.Volume.Phase, s.Volume.Claimed = disk.PhaseAvailable, false
		s.Record.Phase, s.Record.Attachment = disk.PhaseAvailable, "boot1/mount:1"
		return with(s, changes...)
	}
	wipe := outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7}
	run(t, map[string]reclaimCase{
		"its disk was not away":                     {free(func(s *decide.Slot) { s.Stayed = true }), wipe},
		"its disk was away":                         {free(), outcome{Do: decide.Inspect, State: stowage.EntryCleaning}},
		"its disk was away, and is empty":           {free(content(disk.ContentNone)), wipe},
		"its disk came back with data":              {free(content(disk.ContentSome)), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained, Reason: disk.NotEmpty}},
		"that data was kept":                        {free(content(disk.ContentSome), state(disk.Retained)), outcome{Do: decide.RemoveFinalizer, State: stowage.EntryCleaning}},
		"a claim was observed: the data is its own": {free(func(s *decide.Slot) { s.Record.Attachment = "" }), wipe},
	})
}

func TestReleased(t *testing.T) {
	run(t, map[string]reclaimCase{
		"with policy Delete, the volume is deleted before its disk is cleaned": {released(), outcome{Do: decide.DeleteVolume, State: stowage.EntryCleaning}},
		"before its users are known": {
			with(released(), func(s *decide.Slot) { s.UsersKnown = false }), outcome{Do: decide.FindUsers, State: stowage.EntryReleased}},
		"still in use":        {with(released(), used), outcome{Do: decide.None, State: stowage.EntryReleased, Reason: disk.VolumeInUse}},
		"with policy Retain":  {with(released(), policy(disk.Retain)), outcome{Do: decide.None, State: stowage.EntryReleased}},
		"with policy Recycle": {with(released(), policy(disk.RecyclePolicy)), outcome{Do: decide.None, State: stowage.EntryReleased, Reason: disk.Recycle}},
		"with policy Retain, set after the release: the policy is recorded": {
			with(released(), func(s *decide.Slot) { s.Volume.Policy = disk.Retain }), outcome{Do: decide.WriteRecord, State: stowage.EntryReleased}},
		"made by hand, on a disk that was cleaned for another volume of its name": {
			with(released(), state(disk.Clean), uid("0")), outcome{Do: decide.WriteRecord, State: stowage.EntryReleased}},
		"gone":                       {with(released(), gone), outcome{Do: decide.None, State: stowage.EntryMissing, Reason: disk.Missing}},
		"replaced":                   {with(released(), replaced), outcome{Do: decide.None, State: stowage.EntryReplaced, Reason: disk.Replaced}},
		"perhaps another disk":       {with(released(), unproven), outcome{Do: decide.None, State: stowage.EntryUnproven, Reason: disk.IdentityUnproven}},
		"the directory was not read": {with(released(), func(s *decide.Slot) { s.DirectoryRead = false }), outcome{Do: decide.None, State: stowage.EntryReleased}},
		"the configuration no longer has the class": {
			with(released(), func(s *decide.Slot) { s.Configured = false }), outcome{Do: decide.None, State: stowage.EntryReleased, Reason: disk.NotConfigured}},
		"in use according to the scan": {
			with(released(), func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.InUse, "") }),
			outcome{Do: decide.None, State: stowage.EntryReleased, Reason: disk.VolumeInUse}},
		"on a disk that cannot be written": {
			with(released(), func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.ReadOnly, "") }),
			outcome{Do: decide.None, State: stowage.EntryReleased, Reason: disk.ReadOnly}},
		"on a disk whose file system is shut down": {
			with(released(), func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.FilesystemError, "") }),
			outcome{Do: decide.None, State: stowage.EntryFailing, Reason: disk.FilesystemError}},
		"on a disk that persistently does not answer": {
			with(released(), func(s *decide.Slot) { s.Fact.Problem, s.Persistent = disk.Problemf(disk.TimedOut, ""), true }),
			outcome{Do: decide.None, State: stowage.EntryFailing, Reason: disk.TimedOut}},
		"without the finalizer": {
			with(released(), func(s *decide.Slot) { s.Volume.Finalized = false }), outcome{Do: decide.AddFinalizer, State: stowage.EntryReleased}},
		"the disk has no record": {
			with(released(), func(s *decide.Slot) { s.Record, s.VolumeRecord = nil, nil }), outcome{Do: decide.WriteRecord, State: stowage.EntryReleased}},
		"adopted, and its disk is recorded for another volume": {
			with(released(), func(s *decide.Slot) { s.Volume.Identity, s.Record.Volume = "", "local-pv-2" }),
			outcome{Do: decide.None, State: stowage.EntryUnproven, Reason: disk.IdentityUnproven}},
		"the record is damaged": {
			with(released(), func(s *decide.Slot) { s.Record, s.VolumeRecord, s.Damaged = nil, nil, true }),
			outcome{Do: decide.None, State: stowage.EntryReleased, Reason: disk.BadRecord}},
	})
}

func TestFailed(t *testing.T) {
	failed := phase(disk.PhaseOfFailed)
	run(t, map[string]reclaimCase{
		"nothing is done":                     {with(released(), failed), outcome{Do: decide.None, State: stowage.EntryFailed, Reason: disk.PhaseFailed}},
		"with policy Recycle":                 {with(released(), failed, policy(disk.RecyclePolicy)), outcome{Do: decide.None, State: stowage.EntryFailed, Reason: disk.Recycle}},
		"deleted by hand, with policy Delete": {with(deleting(), failed), outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7}},
	})
}

func TestDeleted(t *testing.T) {
	run(t, map[string]reclaimCase{
		"its disk is cleaned": {deleting(), outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7}},
		"still in use":        {with(deleting(), used), outcome{Do: decide.None, State: stowage.EntryCleaning, Reason: disk.VolumeInUse}},
		"half cleaned":        {with(deleting(), state(disk.Cleaning)), outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7}},
		"clean":               {with(deleting(), state(disk.Clean)), outcome{Do: decide.RemoveFinalizer, State: stowage.EntryCleaning}},
		"cleaned for another volume": {
			with(deleting(), state(disk.Clean), func(s *decide.Slot) { s.Record.Volume = "local-pv-0" }), outcome{Do: decide.WriteRecord, State: stowage.EntryCleaning}},
		"without the finalizer": {
			with(deleting(), func(s *decide.Slot) { s.Volume.Finalized = false }), outcome{Do: decide.None, State: stowage.EntryReleased}},
		"while a claim has it": {
			with(deleting(), phase(disk.PhaseBound)), outcome{Do: decide.None, State: stowage.EntryBound, Reason: disk.VolumeInUse}},
		"by hand, while a claim is being bound: the finalizer is removed, and the disk is inspected afterwards": {
			with(deleting(), phase(disk.PhaseAvailable)), outcome{Do: decide.RemoveFinalizer, State: stowage.EntryReleased}},
		"by hand, while a claim is being bound, which is not recorded": {
			with(deleting(), func(s *decide.Slot) { s.Volume.Phase = disk.PhaseAvailable }), outcome{Do: decide.WriteRecord, State: stowage.EntryReleased}},
		"by hand, while a claim is being bound, on a disk that is recorded as clean": {
			with(deleting(), phase(disk.PhaseAvailable), state(disk.Clean), uid("0")), outcome{Do: decide.WriteRecord, State: stowage.EntryReleased}},
		"cleaned for another volume of its name": {
			with(deleting(), state(disk.Clean), uid("0")), outcome{Do: decide.WriteRecord, State: stowage.EntryCleaning}},
		"half cleaned for another volume of its name": {
			with(deleting(), state(disk.Cleaning), uid("0")), outcome{Do: decide.WriteRecord, State: stowage.EntryCleaning}},
		"by hand, while free": {
			with(deleting(), phase(disk.PhaseAvailable), func(s *decide.Slot) { s.Volume.Claimed = false }),
			outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7}},
		"with policy Retain":               {with(deleting(), policy(disk.Retain)), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained}},
		"with policy Retain, and recorded": {with(deleting(), policy(disk.Retain), state(disk.Retained)), outcome{Do: decide.RemoveFinalizer, State: stowage.EntryCleaning}},
		"with policy Recycle":              {with(deleting(), policy(disk.RecyclePolicy)), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained}},
		"gone":                             {with(deleting(), gone), outcome{Do: decide.CleanLater, State: stowage.EntryMissing}},
		"gone, and to be cleaned later":    {with(deleting(), state(disk.Cleaning), gone), outcome{Do: decide.RemoveFinalizer, State: stowage.EntryMissing}},
		"gone, while free": {
			with(deleting(), phase(disk.PhaseAvailable), func(s *decide.Slot) { s.Volume.Claimed = false }, gone), outcome{Do: decide.RemoveFinalizer, State: stowage.EntryMissing}},
		"gone, and there is no record": {
			with(deleting(), gone, func(s *decide.Slot) { s.VolumeRecord = nil }), outcome{Do: decide.WriteRecord, State: stowage.EntryMissing}},
		"gone in one scan": {
			with(deleting(), gone, func(s *decide.Slot) { s.MissedScans = 1 }), outcome{Do: decide.None, State: stowage.EntryMissing, Reason: disk.Missing}},
		"replaced": {with(deleting(), replaced), outcome{Do: decide.CleanLater, State: stowage.EntryReplaced}},
		"perhaps another disk, with data of a claim": {
			with(deleting(), unproven), outcome{Do: decide.None, State: stowage.EntryUnproven, Reason: disk.IdentityUnproven}},
		"perhaps another disk, never claimed": {
			with(deleting(), phase(disk.PhaseAvailable), func(s *decide.Slot) { s.Volume.Claimed = false }, unproven), outcome{Do: decide.RemoveFinalizer, State: stowage.EntryUnproven}},
	})
}

func TestVanished(t *testing.T) {
	run(t, map[string]reclaimCase{
		"its disk is cleaned, and its name never used again": {
			vanished(disk.Published, disk.Delete), outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 8}},
		"before the reports of other nodes were searched: another node may have used the disk": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.NodesAsked = false }), outcome{Do: decide.AskNodes, State: stowage.EntryCleaning}},
		"another node has a volume of the disk": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.ForeignPV = "volume local-pv-9 of node n9" }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.OtherNodesVolume}},
		"half cleaned": {
			with(vanished(disk.Cleaning, disk.Delete), func(s *decide.Slot) { s.Record.Volume = "" }),
			outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7}},
		"still in use": {with(vanished(disk.Published, disk.Delete), used), outcome{Do: decide.None, State: stowage.EntryCleaning, Reason: disk.VolumeInUse}},
		"the provisioner's labels were removed from the volume, which still offers the data": {
			with(vanished(disk.Published, disk.Delete), foreign), outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.ForeignVolume}},
		"the same with policy Retain": {
			with(vanished(disk.Retained, disk.Retain), foreign), outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.ForeignVolume}},
		"found for the first time: the time is recorded": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.Record.Missed = time.Time{} }), outcome{Do: decide.MarkVanished, State: stowage.EntryCleaning}},
		"within the grace period": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.GraceOver = false }),
			outcome{Do: decide.None, State: stowage.EntryCleaning, Reason: disk.OrphanGracePeriod}},
		"within the grace period, and its data is acknowledged": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.GraceOver = false }, acknowledged),
			outcome{Do: decide.MarkClean, State: stowage.EntryPending, Generation: 8}},
		"not allowed by the controller": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.CleanAllowed = false }),
			outcome{Do: decide.None, State: stowage.EntryCleaning, Reason: disk.OrphanCleanWaits}},
		"half cleaned: the clean is resumed at once": {
			with(vanished(disk.Cleaning, disk.Delete), func(s *decide.Slot) { s.GraceOver, s.CleanAllowed = false, false }),
			outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 8}},
		"last Bound: kept": {with(vanished(disk.Published, disk.Delete), last(disk.PhaseBound)), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained}},
		"last Bound, and the reports of other nodes were not searched: the controller may have released it": {
			with(vanished(disk.Published, disk.Delete), last(disk.PhaseBound), func(s *decide.Slot) { s.NodesAsked = false }),
			outcome{Do: decide.AskNodes, State: stowage.EntryRetained}},
		"last Bound, and kept": {
			with(vanished(disk.Retained, disk.Delete), last(disk.PhaseBound), content(disk.ContentSome)),
			outcome{Do: decide.None, State: stowage.EntryRetained, Reason: disk.VolumeVanished}},
		"last Bound, and acknowledged": {
			with(vanished(disk.Retained, disk.Delete), last(disk.PhaseBound), acknowledged), outcome{Do: decide.MarkClean, State: stowage.EntryPending, Generation: 8}},
		"last Failed: kept":                 {with(vanished(disk.Published, disk.Delete), last(disk.PhaseOfFailed)), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained}},
		"last Available, and not inspected": {with(vanished(disk.Published, disk.Delete), last(disk.PhaseAvailable)), outcome{Do: decide.Inspect, State: stowage.EntryPending}},
		"last Available, and empty: published again": {
			with(vanished(disk.Published, disk.Delete), last(disk.PhaseAvailable), content(disk.ContentNone)),
			outcome{Do: decide.MarkClean, State: stowage.EntryPending, Generation: 8}},
		"last Available, and with data: kept": {
			with(vanished(disk.Published, disk.Delete), last(disk.PhaseAvailable), content(disk.ContentSome)), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained}},
		"never observed, and with data: kept": {
			with(vanished(disk.Published, disk.Delete), last(""), content(disk.ContentSome)), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained}},
		"with policy Retain": {vanished(disk.Published, disk.Retain), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained}},
		"kept, and not inspected": {
			vanished(disk.Retained, disk.Retain), outcome{Do: decide.Inspect, State: stowage.EntryRetained}},
		"kept, and no data was found so far": {
			with(vanished(disk.Retained, disk.Retain), func(s *decide.Slot) { s.Content = disk.ContentSampled }),
			outcome{Do: decide.ProveBlank, State: stowage.EntryRetained, Reason: disk.ProvingBlank}},
		"kept, and no data was found so far, in a class that assumes new devices to be blank": {
			with(vanished(disk.Retained, disk.Retain), func(s *decide.Slot) { s.Content, s.Existing = disk.ContentSampled, decide.ExistingAssumeBlank }),
			outcome{Do: decide.ProveBlank, State: stowage.EntryRetained, Reason: disk.ProvingBlank}},
		"kept, with data": {
			with(vanished(disk.Retained, disk.Retain), func(s *decide.Slot) { s.Content = disk.ContentSome }),
			outcome{Do: decide.None, State: stowage.EntryRetained, Reason: disk.RetainedDirty}},
		"kept, and empty": {
			with(vanished(disk.Retained, disk.Retain), func(s *decide.Slot) { s.Content = disk.ContentNone }),
			outcome{Do: decide.MarkClean, State: stowage.EntryPending, Generation: 8}},
		"without a volume, and acknowledged by its generation, which never applies again": {
			with(vanished(disk.Retained, disk.Retain), func(s *decide.Slot) { s.Record.Volume, s.Record.UID, s.Acknowledged = "", "", true }),
			outcome{Do: decide.MarkClean, State: stowage.EntryPending, Generation: 8}},
		"kept, and acknowledged": {
			with(vanished(disk.Retained, disk.Retain), func(s *decide.Slot) { s.Content, s.Acknowledged = disk.ContentSome, true }),
			outcome{Do: decide.MarkClean, State: stowage.EntryPending, Generation: 8}},
		"with the disk at another path, where it has a volume": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.DuplicatePV = "local-pv-9" }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.SameBytes}},
		"with a class that is not configured": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.Configured = false }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.NotConfigured}},
		"with a problem": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.InUse, "") }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.InUse}},
	})
}

// TestOtherCluster: a disk with a record of another cluster is neither cleaned nor published,
// whatever its state, until an administrator acknowledges it.
func TestOtherCluster(t *testing.T) {
	kept := outcome{Do: decide.None, State: stowage.EntryRetained, Reason: disk.OtherCluster}
	cleanRecord := outcome{Do: decide.MarkClean, State: stowage.EntryPending, Generation: 8}
	cases := map[string]reclaimCase{
		"released here, on a disk of another cluster": {
			with(released(), otherCluster), outcome{Do: decide.None, State: stowage.EntryReleased, Reason: disk.OtherCluster}},
		"being deleted here, on a disk of another cluster": {
			with(deleting(), otherCluster), outcome{Do: decide.None, State: stowage.EntryCleaning, Reason: disk.OtherCluster}},
		"being deleted here, and cleaned there": {
			with(deleting(), state(disk.Clean), otherCluster), outcome{Do: decide.None, State: stowage.EntryCleaning, Reason: disk.OtherCluster}},
		"being deleted here with policy Retain": {
			with(deleting(), policy(disk.Retain), otherCluster), outcome{Do: decide.MarkRetained, State: stowage.EntryRetained}},
		"released here, and acknowledged": {
			with(released(), otherCluster, acknowledged), outcome{Do: decide.WriteRecord, State: stowage.EntryReleased}},
		"of no cluster": {
			with(vanished(disk.Published, disk.Delete), func(s *decide.Slot) { s.Cluster = "here" }), kept},
		"with a problem": {
			with(vanished(disk.Published, disk.Delete), otherCluster, func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(disk.InUse, "") }),
			outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.InUse}},
	}
	for _, st := range []disk.State{disk.Clean, disk.Published, disk.Cleaning, disk.Retained} {
		for _, existing := range []decide.Existing{decide.ExistingRefuse, decide.ExistingClean, decide.ExistingPublish} {
			for _, p := range []disk.Policy{disk.Delete, disk.Retain} {
				name := string(st) + ", " + string(p) + ", existingData " + string(existing)
				of := func() *decide.Slot {
					return with(vanished(st, p), otherCluster, content(disk.ContentNone), func(s *decide.Slot) { s.Existing = existing })
				}
				cases[name] = reclaimCase{of(), kept}
				cases[name+", acknowledged"] = reclaimCase{with(of(), acknowledged), cleanRecord}
			}
		}
	}
	run(t, cases)
}

type reclaimCase struct {
	slot *decide.Slot
	want outcome
}

func run(t *testing.T, cases map[string]reclaimCase) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, reclaim(t, test.slot)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPlanOfReclaiming has the lines of the local volume proposal's test plan that are about
// released volumes, in the proposal's words.
func TestPlanOfReclaiming(t *testing.T) {
	t.Run("PV is released, PV should be deleted", func(t *testing.T) {
		if got := reclaim(t, released()); got.Do != decide.DeleteVolume {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("PV should not be deleted for any other PV phase", func(t *testing.T) {
		for _, p := range []disk.Phase{"", disk.PhasePending, disk.PhaseAvailable, disk.PhaseBound} {
			if decide.ForReclaim(with(released(), phase(p))) {
				t.Errorf("a volume of phase %q is reclaimed", p)
			}
		}
		if got := reclaim(t, with(released(), phase(disk.PhaseOfFailed))); got.Do != decide.None {
			t.Errorf("Failed: got %+v", got)
		}
	})
	t.Run("PV deletion failure should not remove PV from cache", func(t *testing.T) {
		// The decision does not change while the volume exists.
		for range 3 {
			if got := reclaim(t, released()); got.Do != decide.DeleteVolume {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("PV cleanup failure should not delete PV or remove from cache", func(t *testing.T) {
		if got := reclaim(t, with(deleting(), state(disk.Cleaning))); got.Do == decide.RemoveFinalizer {
			t.Errorf("a disk that is not clean: got %+v", got)
		}
	})
}

// TestClassRemoved: a volume whose class is no longer configured is not cleaned,
// and the reason is reported, although its directory is no longer scanned.
func TestClassRemoved(t *testing.T) {
	for name, s := range map[string]*decide.Slot{"released": released(), "being deleted": deleting()} {
		t.Run(name, func(t *testing.T) {
			s.Configured, s.DirectoryRead, s.Fact, s.Record = false, false, nil, nil
			d := decide.Reclaim(s)
			if d.Do != decide.None || d.Problem == nil || d.Problem.Reason != disk.NotConfigured {
				t.Errorf("decided %+v (%v), want nothing done and NotConfigured", d, d.Problem)
			}
			s.Configured = true
			if d := decide.Reclaim(s); d.Do != decide.None || d.Problem != nil {
				t.Errorf("decided %+v (%v) before the directory was scanned, want to wait", d, d.Problem)
			}
		})
	}
}

// TestNeverKnownToBePublished: the provisioner was killed after it wrote the record and before
// it created the volume. The disk is empty, or has data that existingData publishes.
func TestNeverKnownToBePublished(t *testing.T) {
	for name, test := range map[string]struct {
		existing decide.Existing
		content  disk.Content
		want     decide.Action
	}{
		"not inspected: the disk is inspected": {decide.ExistingRefuse, disk.ContentUnknown, decide.Inspect},
		"empty: published again":               {decide.ExistingRefuse, disk.ContentNone, decide.MarkClean},
		"with data that was to be published":   {decide.ExistingPublish, disk.ContentSome, decide.MarkRetained},
		"with data of unknown origin":          {decide.ExistingRefuse, disk.ContentSome, decide.MarkRetained},
		"with data, and existingData is Clean": {decide.ExistingClean, disk.ContentSome, decide.MarkRetained},
	} {
		t.Run(name, func(t *testing.T) {
			key := disk.Key{Class: "fast", Name: "disk1"}
			got := decide.Reclaim(&decide.Slot{
				Key: key, Configured: true, DirectoryRead: true, Existing: test.existing, Answers: decide.Answers{Content: test.content, UsersKnown: true, NodesAsked: true},
				Fact:   &disk.Fact{Key: key, Identity: "wwn:1"},
				Record: &disk.Record{Identity: "wwn:1", State: disk.Published, Policy: disk.Delete, Volume: "v1", Generation: 7},
			})
			if got.Do != test.want {
				t.Errorf("%s, want %s", got.Do, test.want)
			}
		})
	}
}
