// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

const (
	device = "/dev/sdb"
	same   = disk.Identity("wwn:0x5000")
	other  = disk.Identity("wwn:0x5001")
)

var (
	ext4, ext4Other = disk.Format{Type: "ext4", UUID: "u1"}, disk.Format{Type: "ext4", UUID: "u2"}
	xfs             = disk.Format{Type: "xfs", UUID: "u3"}
)

// proven is a bound volume of mode Filesystem with its disk, and whose link exists.
func proven(change ...func(*decide.Slot)) *decide.Slot {
	record := &disk.Record{Identity: same, Volume: "v", UID: "uid", State: disk.Published, Filesystem: &ext4}
	s := &decide.Slot{
		DirectoryRead: true, Configured: true,
		Fact:   &disk.Fact{Kind: disk.Device, Device: device, Identity: same, Bytes: 1 << 30},
		Record: record, VolumeRecord: record,
		Volume: &disk.Volume{
			Name: "v", UID: "uid", Link: localpv.LinkPath("fast", "v"), Mode: disk.Filesystem, FSType: "ext4", Identity: same,
			DiskBytes: 1 << 30, Phase: disk.PhaseBound, Claimed: true, Finalized: true,
		},
		Link: device, Answers: decide.Answers{Superblock: &disk.Superblock{Format: ext4}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func recorded(f *disk.Format) func(*decide.Slot) {
	return func(s *decide.Slot) { s.VolumeRecord.Filesystem = f }
}

func read(sb disk.Superblock) func(*decide.Slot) { return func(s *decide.Slot) { s.Superblock = &sb } }

func holding(f disk.Format) func(*decide.Slot) { return read(disk.Superblock{Format: f}) }

func noLink(s *decide.Slot) { s.Link = "" }
func unread(s *decide.Slot) { s.Superblock = nil }
func block(s *decide.Slot)  { s.Volume.Mode, s.Superblock = disk.Block, nil }
func free(s *decide.Slot)   { s.Volume.Phase, s.Volume.Claimed = disk.PhaseAvailable, false }

func linkPhase(p disk.Phase) func(*decide.Slot) { return func(s *decide.Slot) { s.Volume.Phase = p } }

func problem(r disk.Reason) func(*decide.Slot) {
	return func(s *decide.Slot) { s.Fact.Problem = disk.Problemf(r, "") }
}

func identity(volume, found disk.Identity) func(*decide.Slot) {
	return func(s *decide.Slot) {
		s.Volume.Identity, s.VolumeRecord.Identity, s.Fact.Identity = volume, volume, found
		if volume != found {
			s.Record = nil
		}
	}
}

func TestLink(t *testing.T) {
	type outcome struct {
		Do     decide.Action
		Reason disk.Reason
	}
	blank := &disk.Format{}
	for name, test := range map[string]struct {
		slot *decide.Slot
		want outcome
	}{
		"identity and content proven, and the link exists":     {proven(), outcome{Do: decide.None}},
		"identity and content proven, after a boot":            {proven(noLink), outcome{Do: decide.AddLink}},
		"the device has another name since the boot":           {proven(func(s *decide.Slot) { s.Link = "/dev/sdc" }), outcome{Do: decide.AddLink}},
		"the device was not read":                              {proven(unread), outcome{Do: decide.ReadSuperblock}},
		"a volume whose path is not a link":                    {proven(func(s *decide.Slot) { s.Volume.Link, s.Link = "", "" }), outcome{Do: decide.None}},
		"a raw device is not read":                             {proven(block, noLink), outcome{Do: decide.AddLink}},
		"no disk is at the path":                               {proven(func(s *decide.Slot) { s.Fact = nil }), outcome{Do: decide.RemoveLink}},
		"the directory could not be read":                      {proven(func(s *decide.Slot) { s.DirectoryRead = false }), outcome{Do: decide.None}},
		"the directory could not be read, and no link":         {proven(noLink, func(s *decide.Slot) { s.DirectoryRead = false }), outcome{Do: decide.None}},
		"another disk is at the path":                          {proven(identity(same, other)), outcome{Do: decide.RemoveLink}},
		"another disk with a copy of the file system":          {proven(identity(same, other), holding(ext4)), outcome{Do: decide.RemoveLink}},
		"another raw disk is at the path":                      {proven(block, identity(same, other)), outcome{Do: decide.RemoveLink}},
		"an administrator accepted the disk":                   {proven(block, identity(same, other), func(s *decide.Slot) { s.Volume.Accepted = other }), outcome{Do: decide.None}},
		"two paths lead to the disk":                           {proven(problem(disk.SameBytes)), outcome{Do: decide.RemoveLink}},
		"two devices have the disk's identity":                 {proven(problem(disk.SharedIdentity)), outcome{Do: decide.RemoveLink}},
		"the disk does not answer":                             {proven(problem(disk.TimedOut)), outcome{Do: decide.RemoveLink}},
		"the node uses the disk too":                           {proven(problem(disk.InUse)), outcome{Do: decide.None}},
		"a pod has partitioned its raw disk":                   {proven(block, problem(disk.InUse)), outcome{Do: decide.None}},
		"the disk cannot be written":                           {proven(problem(disk.ReadOnly)), outcome{Do: decide.None}},
		"a file system is mounted at the path":                 {proven(func(s *decide.Slot) { s.Fact.Kind, s.Fact.Device = disk.Mount, "" }), outcome{Do: decide.RemoveLink}},
		"a raw disk without persistent identity, after a boot": {proven(block, noLink, identity("weak:b1:7", "weak:b2:7")), outcome{Do: decide.None}},
		"a disk without persistent identity, after a boot":     {proven(noLink, identity("weak:b1:7", "weak:b2:9")), outcome{Do: decide.AddLink}},
		"another such disk, after a boot":                      {proven(noLink, identity("weak:b1:7", "weak:b2:9"), holding(ext4Other)), outcome{Do: decide.None}},
		"a blank one, after a boot":                            {proven(noLink, identity("weak:b1:7", "weak:b2:9"), recorded(blank), read(disk.Superblock{})), outcome{Do: decide.None}},
		"a larger one, after a boot":                           {proven(identity("weak:b1:7", "weak:b2:9"), func(s *decide.Slot) { s.Fact.Bytes++ }), outcome{Do: decide.RemoveLink}},
		"the superblock is gone":                               {proven(read(disk.Superblock{})), outcome{decide.RemoveLink, disk.SignatureLost}},
		"the superblock is gone, and still is":                 {proven(noLink, read(disk.Superblock{})), outcome{decide.None, disk.SignatureLost}},
		"the superblock is damaged":                            {proven(read(disk.Superblock{Other: "ext at byte 1080"})), outcome{decide.RemoveLink, disk.SignatureLost}},
		"the superblock cannot be read":                        {proven(read(disk.Superblock{Problem: disk.Problemf(disk.Unreadable, "")})), outcome{decide.RemoveLink, disk.Unreadable}},
		"the file system has another UUID":                     {proven(holding(ext4Other)), outcome{decide.RemoveLink, disk.FilesystemChanged}},
		"another file system":                                  {proven(holding(xfs)), outcome{decide.RemoveLink, disk.FilesystemChanged}},
		"an administrator accepted the new UUID":               {proven(noLink, holding(ext4Other), func(s *decide.Slot) { s.Volume.AcceptedFormat = "ext4:u2" }), outcome{Do: decide.RecordFilesystem}},
		"another format than an administrator accepted":        {proven(holding(xfs), func(s *decide.Slot) { s.Volume.AcceptedFormat = "ext4:u2" }), outcome{decide.RemoveLink, disk.FilesystemChanged}},
		"a blank device cannot be accepted":                    {proven(read(disk.Superblock{}), func(s *decide.Slot) { s.Volume.AcceptedFormat = "no file system" }), outcome{decide.RemoveLink, disk.SignatureLost}},
		"a new volume":                                         {proven(free, noLink, recorded(blank), read(disk.Superblock{})), outcome{Do: decide.AddLink}},
		"bound, and never mounted":                             {proven(recorded(blank), read(disk.Superblock{})), outcome{Do: decide.None}},
		"kubelet has formatted the device":                     {proven(recorded(blank)), outcome{Do: decide.RecordFilesystem}},
		"a free device was formatted by hand":                  {proven(free, recorded(blank)), outcome{decide.RemoveLink, disk.FilesystemChanged}},
		"the mkfs of a new device was interrupted":             {proven(recorded(blank), read(disk.Superblock{Other: "xfs at byte 0"})), outcome{decide.RemoveLink, disk.FilesystemChanged}},
		"a partition table replaced the file system":           {proven(read(disk.Superblock{Other: "dos at byte 510"})), outcome{decide.RemoveLink, disk.SignatureLost}},
		"a new device has another type than the volume":        {proven(recorded(blank), holding(xfs)), outcome{decide.RemoveLink, disk.FilesystemChanged}},
		"a free volume with data that was there before":        {proven(free, noLink), outcome{Do: decide.AddLink}},
		"the record was lost, of a volume with data":           {proven(noLink, recorded(nil)), outcome{Do: decide.RecordFilesystem}},
		"the record was lost, of a free volume":                {proven(free, noLink, recorded(nil), read(disk.Superblock{})), outcome{Do: decide.RecordFilesystem}},
		"the record and the superblock were lost":              {proven(noLink, recorded(nil), read(disk.Superblock{})), outcome{decide.None, disk.SignatureLost}},
		"there is no record yet":                               {proven(func(s *decide.Slot) { s.VolumeRecord = nil }), outcome{Do: decide.RemoveLink}},
		"the record is of another volume":                      {proven(func(s *decide.Slot) { s.VolumeRecord.Volume = "w" }), outcome{Do: decide.RemoveLink}},
		"the record is of another volume of that name":         {proven(func(s *decide.Slot) { s.VolumeRecord.UID = "other" }), outcome{Do: decide.RemoveLink}},
		"the disk is being cleaned":                            {proven(func(s *decide.Slot) { s.VolumeRecord.State = disk.Cleaning }), outcome{Do: decide.RemoveLink}},
		"the claim is gone":                                    {proven(linkPhase(disk.PhaseReleased)), outcome{Do: decide.RemoveLink}},
		"the volume failed":                                    {proven(linkPhase(disk.PhaseOfFailed)), outcome{Do: decide.RemoveLink}},
		"a free volume is being deleted":                       {proven(free, func(s *decide.Slot) { s.Volume.Deleting = true }), outcome{Do: decide.RemoveLink}},
		"deleted while its claim still uses it":                {proven(func(s *decide.Slot) { s.Volume.Deleting = true }), outcome{Do: decide.None}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide.Link(test.slot)
			got := outcome{Do: d.Do}
			if d.Problem != nil {
				got.Reason = d.Problem.Reason
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithLink(t *testing.T) {
	grown, lost := disk.Problemf(disk.Grown, "grown"), disk.Problemf(disk.SignatureLost, "lost")
	for name, test := range map[string]struct{ d, link, want decide.Decision }{
		"removing the link precedes other actions":        {decide.Decision{Do: decide.Clean, State: stowage.EntryCleaning}, decide.Decision{Do: decide.RemoveLink}, decide.Decision{Do: decide.RemoveLink, State: stowage.EntryCleaning}},
		"other actions precede adding the link":           {decide.Decision{Do: decide.WriteRecord, State: stowage.EntryBound}, decide.Decision{Do: decide.AddLink}, decide.Decision{Do: decide.WriteRecord, State: stowage.EntryBound}},
		"the link is added if there is no other action":   {decide.Decision{Do: decide.None, State: stowage.EntryBound}, decide.Decision{Do: decide.AddLink}, decide.Decision{Do: decide.AddLink, State: stowage.EntryBound}},
		"the reason for withholding the link is reported": {decide.Decision{Do: decide.None, State: stowage.EntryBound}, decide.Decision{Do: decide.None, Problem: lost}, decide.Decision{Do: decide.None, State: stowage.EntryBound, Problem: lost}},
		"the problem of the slot is reported first":       {decide.Decision{Do: decide.None, Problem: grown}, decide.Decision{Do: decide.None, Problem: lost}, decide.Decision{Do: decide.None, Problem: grown}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decide.WithLink(test.d, test.link)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
