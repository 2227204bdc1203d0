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

// toFormat is a slot with a clean, unused device of a class whose file systems the provisioner
// makes, as ext4.
func toFormat(change func(*decide.Slot)) *decide.Slot {
	s := foundDevice()
	s.MountedHere, s.FSType, s.Mode, s.UsersKnown, s.Stayed = true, "ext4", disk.Filesystem, true, true
	s.Superblock = &disk.Superblock{}
	s.Record = &disk.Record{Identity: "wwn:1", Kind: disk.Device, Mode: disk.Filesystem, State: disk.Clean, Generation: 7}
	change(s)
	return s
}

// TestFilesystemBeforePublishing: a device is published with the file system that the provisioner
// made on it, and nothing else that is found is overwritten.
func TestFilesystemBeforePublishing(t *testing.T) {
	made := outcome{Do: decide.Create, State: stowage.EntryPending, Generation: 7}
	format := outcome{Do: decide.MakeFilesystem, State: stowage.EntryPending, Generation: 7}
	clean := outcome{Do: decide.Clean, State: stowage.EntryCleaning, Generation: 7}
	refused := outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.NotEmpty}
	kubelet := func(s *decide.Slot) { s.MountedHere = false }
	for name, test := range map[string]struct {
		change func(s *decide.Slot)
		want   outcome
	}{
		"the device is read first":   {func(s *decide.Slot) { s.Superblock = nil }, outcome{Do: decide.ReadSuperblock, State: stowage.EntryPending}},
		"its users are found before": {func(s *decide.Slot) { s.UsersKnown = false }, outcome{Do: decide.FindUsers, State: stowage.EntryPending}},
		"it cannot be read": {
			func(s *decide.Slot) { s.Superblock.Problem = disk.Problemf(disk.Unreadable, "") }, outcome{Do: decide.None, State: stowage.EntrySkipped, Reason: disk.Unreadable},
		},
		"it is blank": {func(*decide.Slot) {}, format},
		"a new one is blank": {
			func(s *decide.Slot) { s.Record, s.Content = nil, disk.ContentNone }, outcome{Do: decide.MakeFilesystem, State: stowage.EntryPending, Generation: first},
		},
		"a new one is not proven to be blank": {
			func(s *decide.Slot) { s.Record, s.Content = nil, disk.ContentSampled }, outcome{Do: decide.ProveBlank, State: stowage.EntryPending, Reason: disk.ProvingBlank},
		},
		"the file system is made":                       {func(s *decide.Slot) { s.Superblock.Format, s.Record.Filesystem = ext4, &ext4 }, made},
		"another one is there":                          {func(s *decide.Slot) { s.Superblock.Format, s.Record.Filesystem = ext4Other, &ext4 }, refused},
		"one that is not recorded":                      {func(s *decide.Slot) { s.Superblock.Format = ext4 }, refused},
		"the one that is recorded is gone":              {func(s *decide.Slot) { s.Record.Filesystem = &ext4 }, format},
		"mkfs was killed before it wrote":               {func(s *decide.Slot) { s.Record.Formatting = &ext4 }, format},
		"mkfs was killed after it wrote the superblock": {func(s *decide.Slot) { s.Superblock.Format, s.Record.Formatting = ext4, &ext4 }, format},
		"mkfs was killed while it wrote the superblock": {
			func(s *decide.Slot) { s.Superblock.Other, s.Record.Formatting, s.FSType = "xfs at byte 0", &xfs, "xfs" }, format,
		},
		"mkfs was killed, and another file system is there": {func(s *decide.Slot) { s.Superblock.Format, s.Record.Formatting = ext4Other, &ext4 }, refused},
		"mkfs was killed, and a partition table is there":   {func(s *decide.Slot) { s.Superblock.Other, s.Record.Formatting = "dos at byte 510", &ext4 }, refused},
		"mkfs was killed, and a superblock of another type is there": {
			func(s *decide.Slot) { s.Superblock.Other, s.Record.Formatting = "xfs at byte 0", &ext4 }, refused,
		},
		"mkfs was killed, and fsType changed":         {func(s *decide.Slot) { s.Superblock.Format, s.Record.Formatting = xfs, &xfs }, clean},
		"the file system is made, and fsType changed": {func(s *decide.Slot) { s.Superblock.Format, s.Record.Filesystem = xfs, &xfs }, clean},
		"the file system is made, and mount changed":  {func(s *decide.Slot) { kubelet(s); s.Superblock.Format, s.Record.Filesystem = ext4, &ext4 }, clean},
		"mkfs was killed, and mount changed":          {func(s *decide.Slot) { kubelet(s); s.Record.Formatting = &ext4 }, clean},
		"kubelet makes the file system":               {kubelet, made},
		"the data of a volume was acknowledged": {
			func(s *decide.Slot) { s.Superblock.Format, s.Record.Filesystem, s.Record.Accepted = ext4, &ext4, true }, made,
		},
		"data of another origin was acknowledged":   {func(s *decide.Slot) { s.Superblock.Format, s.Record.Accepted = ext4, true }, refused},
		"data without a signature was acknowledged": {func(s *decide.Slot) { s.Record.Accepted = true }, refused},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, publish(toFormat(test.change))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMountOfClassChanged: free volumes are published again, others keep their path.
func TestMountOfClassChanged(t *testing.T) {
	for name, test := range map[string]struct {
		phase       disk.Phase
		link        string
		mountedHere bool
		want        outcome
	}{
		"free, to Agent":      {disk.PhaseAvailable, "/dev/stowage/disks/fast/local-pv-1", true, outcome{Do: decide.DeleteVolume, State: stowage.EntryAvailable, Reason: disk.NotConfigured}},
		"free, to Kubelet":    {disk.PhaseAvailable, "/var/lib/stowage/mounts/fast/local-pv-1/data", false, outcome{Do: decide.DeleteVolume, State: stowage.EntryAvailable, Reason: disk.NotConfigured}},
		"bound, to Agent":     {disk.PhaseBound, "/dev/stowage/disks/fast/local-pv-1", true, outcome{Do: decide.None, State: stowage.EntryBound}},
		"bound, to Kubelet":   {disk.PhaseBound, "/var/lib/stowage/mounts/fast/local-pv-1/data", false, outcome{Do: decide.None, State: stowage.EntryBound}},
		"free, still Agent":   {disk.PhaseAvailable, "/var/lib/stowage/mounts/fast/local-pv-1/data", true, outcome{Do: decide.None, State: stowage.EntryAvailable}},
		"free, still Kubelet": {disk.PhaseAvailable, "/dev/stowage/disks/fast/local-pv-1", false, outcome{Do: decide.None, State: stowage.EntryAvailable}},
		"free, and no device": {disk.PhaseAvailable, "", true, outcome{Do: decide.None, State: stowage.EntryAvailable}},
	} {
		t.Run(name, func(t *testing.T) {
			s := published(test.phase)
			s.Volume.Link, s.Volume.Mode, s.MountedHere = test.link, disk.Filesystem, test.mountedHere
			if diff := cmp.Diff(test.want, publish(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLinkOfMounted: a volume whose file system the provisioner mounts is never mounted blank.
func TestLinkOfMounted(t *testing.T) {
	mounted := func(s *decide.Slot) { s.Volume.Link = "/var/lib/stowage/mounts/fast/local-pv-1/data" }
	for name, test := range map[string]struct {
		slot   *decide.Slot
		want   decide.Action
		reason disk.Reason
	}{
		"after a boot":                            {proven(mounted, noLink), decide.AddLink, ""},
		"another device is mounted":               {proven(mounted, func(s *decide.Slot) { s.Link = "dev:8:32" }), decide.AddLink, ""},
		"the device is blank":                     {proven(mounted, read(disk.Superblock{})), decide.RemoveLink, disk.SignatureLost},
		"the device is blank, and without record": {proven(mounted, free, recorded(nil), read(disk.Superblock{})), decide.RemoveLink, disk.SignatureLost},
		"the device is blank, and so recorded":    {proven(mounted, free, recorded(&disk.Format{}), read(disk.Superblock{})), decide.RemoveLink, disk.SignatureLost},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide.Link(test.slot)
			if d.Do != test.want || test.reason != "" && (d.Problem == nil || d.Problem.Reason != test.reason) {
				t.Errorf("got %s (%v), want %s (%s)", d.Do, d.Problem, test.want, test.reason)
			}
		})
	}
}
