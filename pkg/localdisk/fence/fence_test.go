// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/fence"
	"stowage.dev/stowage/pkg/localdisk/slot"
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

// proven is a bound volume of mode Filesystem that is in use, and whose link exists.
func proven(change ...func(*slot.Slot)) *slot.Slot {
	record := &disk.Record{Identity: same, Volume: "v", UID: "uid", State: disk.Published, Filesystem: &ext4}
	s := &slot.Slot{
		Looked: true, Configured: true,
		Fact:   &disk.Fact{Kind: disk.Device, Device: device, Identity: same, Bytes: 1 << 30},
		Record: record, VolumeRecord: record,
		Volume: &disk.Volume{
			Name: "v", UID: "uid", Link: disk.LinkPath("fast", "v"), Mode: disk.Filesystem, FSType: "ext4", Identity: same,
			DiskBytes: 1 << 30, Phase: disk.PhaseBound, Claimed: true, Finalized: true,
		},
		Link: device, Superblock: &disk.Superblock{Format: ext4},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func recorded(f *disk.Format) func(*slot.Slot) {
	return func(s *slot.Slot) { s.VolumeRecord.Filesystem = f }
}

func read(sb disk.Superblock) func(*slot.Slot) { return func(s *slot.Slot) { s.Superblock = &sb } }

func holding(f disk.Format) func(*slot.Slot) { return read(disk.Superblock{Format: f}) }

func noLink(s *slot.Slot) { s.Link = "" }
func unread(s *slot.Slot) { s.Superblock = nil }
func block(s *slot.Slot)  { s.Volume.Mode, s.Superblock = disk.Block, nil }
func free(s *slot.Slot)   { s.Volume.Phase, s.Volume.Claimed = disk.PhaseAvailable, false }

func phase(p disk.Phase) func(*slot.Slot) { return func(s *slot.Slot) { s.Volume.Phase = p } }

func problem(r disk.Reason) func(*slot.Slot) {
	return func(s *slot.Slot) { s.Fact.Problem = disk.Problemf(r, "") }
}

func identity(volume, found disk.Identity) func(*slot.Slot) {
	return func(s *slot.Slot) {
		s.Volume.Identity, s.VolumeRecord.Identity, s.Fact.Identity = volume, volume, found
		if volume != found {
			s.Record = nil
		}
	}
}

func TestDecide(t *testing.T) {
	type outcome struct {
		Do     slot.Action
		Reason disk.Reason
	}
	blank := &disk.Format{}
	for name, test := range map[string]struct {
		slot *slot.Slot
		want outcome
	}{
		"all is proven, and the link exists":                {proven(), outcome{Do: slot.None}},
		"all is proven, after a boot":                       {proven(noLink), outcome{Do: slot.AddLink}},
		"the device has another name since the boot":        {proven(func(s *slot.Slot) { s.Link = "/dev/sdc" }), outcome{Do: slot.AddLink}},
		"the device was not read":                           {proven(unread), outcome{Do: slot.ReadSuperblock}},
		"a volume whose path is no link":                    {proven(func(s *slot.Slot) { s.Volume.Link, s.Link = "", "" }), outcome{Do: slot.None}},
		"a raw device is not read":                          {proven(block, noLink), outcome{Do: slot.AddLink}},
		"the disk is gone":                                  {proven(func(s *slot.Slot) { s.Fact = nil }), outcome{Do: slot.RemoveLink}},
		"the directory could not be read":                   {proven(func(s *slot.Slot) { s.Looked = false }), outcome{Do: slot.None}},
		"the directory could not be read, and no link":      {proven(noLink, func(s *slot.Slot) { s.Looked = false }), outcome{Do: slot.None}},
		"another disk is at the path":                       {proven(identity(same, other)), outcome{Do: slot.RemoveLink}},
		"another disk with a copy of the file system":       {proven(identity(same, other), holding(ext4)), outcome{Do: slot.RemoveLink}},
		"another raw disk is at the path":                   {proven(block, identity(same, other)), outcome{Do: slot.RemoveLink}},
		"an administrator calls it the same disk":           {proven(block, identity(same, other), func(s *slot.Slot) { s.Volume.Accepted = other }), outcome{Do: slot.None}},
		"two paths show the disk":                           {proven(problem(disk.SameBytes)), outcome{Do: slot.RemoveLink}},
		"the disk does not answer":                          {proven(problem(disk.TimedOut)), outcome{Do: slot.RemoveLink}},
		"the node uses the disk too":                        {proven(problem(disk.InUse)), outcome{Do: slot.None}},
		"the disk cannot be written":                        {proven(problem(disk.ReadOnly)), outcome{Do: slot.None}},
		"a file system is mounted at the path":              {proven(func(s *slot.Slot) { s.Fact.Kind, s.Fact.Device = disk.Mount, "" }), outcome{Do: slot.RemoveLink}},
		"a raw disk without identity, after a boot":         {proven(block, noLink, identity("weak:b1:7", "weak:b2:7")), outcome{Do: slot.None}},
		"a disk without identity, after a boot":             {proven(noLink, identity("weak:b1:7", "weak:b2:9")), outcome{Do: slot.AddLink}},
		"the other disk without identity, after a boot":     {proven(noLink, identity("weak:b1:7", "weak:b2:9"), holding(ext4Other)), outcome{Do: slot.None}},
		"a blank one without identity, after a boot":        {proven(noLink, identity("weak:b1:7", "weak:b2:9"), recorded(blank), read(disk.Superblock{})), outcome{Do: slot.None}},
		"a larger one without identity, after a boot":       {proven(identity("weak:b1:7", "weak:b2:9"), func(s *slot.Slot) { s.Fact.Bytes++ }), outcome{Do: slot.RemoveLink}},
		"the superblock is gone":                            {proven(read(disk.Superblock{})), outcome{slot.RemoveLink, disk.SignatureLost}},
		"the superblock is gone, and still is":              {proven(noLink, read(disk.Superblock{})), outcome{slot.None, disk.SignatureLost}},
		"the superblock is damaged":                         {proven(read(disk.Superblock{Other: "ext at byte 1080"})), outcome{slot.RemoveLink, disk.SignatureLost}},
		"the superblock cannot be read":                     {proven(read(disk.Superblock{Problem: disk.Problemf(disk.Unreadable, "")})), outcome{slot.RemoveLink, disk.Unreadable}},
		"the file system has another UUID":                  {proven(holding(ext4Other)), outcome{slot.RemoveLink, disk.FilesystemChanged}},
		"another file system":                               {proven(holding(xfs)), outcome{slot.RemoveLink, disk.FilesystemChanged}},
		"an administrator accepts the new UUID":             {proven(noLink, holding(ext4Other), func(s *slot.Slot) { s.Volume.AcceptedFormat = "ext4:u2" }), outcome{Do: slot.RecordFilesystem}},
		"what an administrator accepted is not there":       {proven(holding(xfs), func(s *slot.Slot) { s.Volume.AcceptedFormat = "ext4:u2" }), outcome{slot.RemoveLink, disk.FilesystemChanged}},
		"no administrator accepts a blank device":           {proven(read(disk.Superblock{}), func(s *slot.Slot) { s.Volume.AcceptedFormat = "no file system" }), outcome{slot.RemoveLink, disk.SignatureLost}},
		"a new volume":                                      {proven(free, noLink, recorded(blank), read(disk.Superblock{})), outcome{Do: slot.AddLink}},
		"bound, and not used so far":                        {proven(recorded(blank), read(disk.Superblock{})), outcome{Do: slot.None}},
		"kubelet has formatted the device":                  {proven(recorded(blank)), outcome{Do: slot.RecordFilesystem}},
		"a free device was formatted by hand":               {proven(free, recorded(blank)), outcome{slot.RemoveLink, disk.FilesystemChanged}},
		"a new device has a type kubelet was not asked for": {proven(recorded(blank), holding(xfs)), outcome{slot.RemoveLink, disk.FilesystemChanged}},
		"a free volume with data that was there before":     {proven(free, noLink), outcome{Do: slot.AddLink}},
		"the record was lost, of a volume with data":        {proven(noLink, recorded(nil)), outcome{Do: slot.RecordFilesystem}},
		"the record was lost, of a free volume":             {proven(free, noLink, recorded(nil), read(disk.Superblock{})), outcome{Do: slot.RecordFilesystem}},
		"the record was lost, and the superblock too":       {proven(noLink, recorded(nil), read(disk.Superblock{})), outcome{slot.None, disk.SignatureLost}},
		"there is no record yet":                            {proven(func(s *slot.Slot) { s.VolumeRecord = nil }), outcome{Do: slot.RemoveLink}},
		"the record is of another volume":                   {proven(func(s *slot.Slot) { s.VolumeRecord.Volume = "w" }), outcome{Do: slot.RemoveLink}},
		"the record is of another volume of that name":      {proven(func(s *slot.Slot) { s.VolumeRecord.UID = "other" }), outcome{Do: slot.RemoveLink}},
		"the disk is being cleaned":                         {proven(func(s *slot.Slot) { s.VolumeRecord.State = disk.Cleaning }), outcome{Do: slot.RemoveLink}},
		"the claim is gone":                                 {proven(phase(disk.PhaseReleased)), outcome{Do: slot.RemoveLink}},
		"the volume failed":                                 {proven(phase(disk.PhaseOfFailed)), outcome{Do: slot.RemoveLink}},
		"a free volume is being deleted":                    {proven(free, func(s *slot.Slot) { s.Volume.Deleting = true }), outcome{Do: slot.RemoveLink}},
		"deleted while its claim still uses it":             {proven(func(s *slot.Slot) { s.Volume.Deleting = true }), outcome{Do: slot.None}},
	} {
		t.Run(name, func(t *testing.T) {
			d := fence.Decide(test.slot)
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

func TestWith(t *testing.T) {
	told, lost := disk.Problemf(disk.Grown, "grown"), disk.Problemf(disk.SignatureLost, "lost")
	for name, test := range map[string]struct{ d, link, want slot.Decision }{
		"removing the link goes first":         {slot.Decision{Do: slot.Wipe, State: slot.Cleaning}, slot.Decision{Do: slot.RemoveLink}, slot.Decision{Do: slot.RemoveLink, State: slot.Cleaning}},
		"adding it comes last":                 {slot.Decision{Do: slot.WriteRecord, State: slot.Bound}, slot.Decision{Do: slot.AddLink}, slot.Decision{Do: slot.WriteRecord, State: slot.Bound}},
		"adding it when all else is done":      {slot.Decision{Do: slot.None, State: slot.Bound}, slot.Decision{Do: slot.AddLink}, slot.Decision{Do: slot.AddLink, State: slot.Bound}},
		"why it is withheld":                   {slot.Decision{Do: slot.None, State: slot.Bound}, slot.Decision{Do: slot.None, Problem: lost}, slot.Decision{Do: slot.None, State: slot.Bound, Problem: lost}},
		"what else is wrong is reported first": {slot.Decision{Do: slot.None, Problem: told}, slot.Decision{Do: slot.None, Problem: lost}, slot.Decision{Do: slot.None, Problem: told}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, fence.With(test.d, test.link)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
