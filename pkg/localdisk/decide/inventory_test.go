// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// sdb is a disk without any use.
func sdb() disk.BlockDevice {
	return disk.BlockDevice{
		Path: "/dev/sdb", Number: "8:16", Identity: "wwn:naa.5000c500a1b2c301", Transport: disk.SAS, Model: "ACME Disk", Serial: "S1",
		Bytes: 10<<30 + 1, Rotational: true,
	}
}

func TestDiskStatus(t *testing.T) {
	t.Parallel()
	entry := func(problem *disk.Problem) *disk.Fact {
		return &disk.Fact{Key: disk.Key{Class: "fast", Name: "a"}, HostPath: "/mnt/fast/a", Problem: problem}
	}
	type answer struct {
		State           stowage.LocalDiskState
		Reason, Message string
		Class, Path     string
		Health          stowage.LocalDiskHealth
	}
	const eligible, ineligible, assigned = stowage.LocalDiskEligible, stowage.LocalDiskIneligible, stowage.LocalDiskAssigned
	const healthy, failing = stowage.LocalDiskHealthy, stowage.LocalDiskFailing
	tests := map[string]struct {
		problem *disk.Problem
		entry   *disk.Fact
		content *disk.Superblock
		want    answer
	}{
		"blank": {content: &disk.Superblock{}, want: answer{State: eligible, Health: healthy}},
		"with a file system": {
			content: &disk.Superblock{Format: disk.Format{Type: "ext4", UUID: "u"}},
			want:    answer{State: ineligible, Reason: "NotEmpty", Message: "/dev/sdb holds ext4:u", Health: healthy},
		},
		"that cannot be read": {
			content: &disk.Superblock{Problem: disk.Problemf(disk.IOError, "bad sector")},
			want:    answer{State: ineligible, Reason: "IOError", Message: "bad sector", Health: failing},
		},
		"that answered late once": {
			content: &disk.Superblock{Problem: disk.Problemf(disk.TimedOut, "slow")},
			want:    answer{State: ineligible, Reason: "TimedOut", Message: "slow", Health: healthy},
		},
		"in use": {
			problem: disk.Problemf(disk.InUse, "used"),
			want:    answer{State: ineligible, Reason: "InUse", Message: "used", Health: healthy},
		},
		"read-only": {
			problem: disk.Problemf(disk.DeviceReadOnly, "ro"),
			want:    answer{State: ineligible, Reason: "DeviceReadOnly", Message: "ro", Health: failing},
		},
		"of a class, in use by its volume": {
			problem: disk.Problemf(disk.InUse, "used"), entry: entry(nil),
			want: answer{State: assigned, Class: "fast", Path: "/mnt/fast/a", Health: healthy},
		},
		"of a class, and not published for a reason that the report has": {
			entry: entry(disk.Problemf(disk.WrongVolumeMode, "a file system")),
			want:  answer{State: assigned, Class: "fast", Path: "/mnt/fast/a", Health: healthy},
		},
		"of a class, failing": {
			entry: entry(disk.Problemf(disk.FilesystemError, "shut down")),
			want:  answer{State: assigned, Reason: "FilesystemError", Message: "shut down", Class: "fast", Path: "/mnt/fast/a", Health: failing},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := DiskStatus([]disk.BlockDevice{sdb()}, tc.entry, tc.problem, tc.content)
			size := resource.MustParse("10Gi")
			want := stowage.LocalDiskStatus{
				Identity: "wwn:naa.5000c500a1b2c301", Device: "/dev/sdb", Bytes: 10<<30 + 1, Size: &size, Transport: "sas", Rotational: true, Model: "ACME Disk", Serial: "S1",
				State: tc.want.State, Reason: tc.want.Reason, Message: tc.want.Message, Class: tc.want.Class, Path: tc.want.Path, Health: tc.want.Health,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestInUseMessage: pods that start and end on a disk do not change its message.
func TestInUseMessage(t *testing.T) {
	t.Parallel()
	const pod1, pod2 = "/var/lib/kubelet/pods/1/volumes/x/mount", "/var/lib/kubelet/pods/2/volumes/x/mount"
	tests := map[string]struct {
		users []disk.User
		want  string
	}{
		"a pod":                    {[]disk.User{{What: "mount", Where: pod1}}, "pods"},
		"two pods":                 {[]disk.User{{What: "mount", Where: pod1}, {What: "mount", Where: pod2}}, "pods"},
		"a pod and the host":       {[]disk.User{{What: "mount", Where: "/srv"}, {What: "mount", Where: pod1}}, "mount /srv"},
		"a folder much like it":    {[]disk.User{{What: "mount", Where: "/var/lib/kubelet2/a"}}, "mount /var/lib/kubelet2/a"},
		"a logical volume":         {[]disk.User{{What: "holder", Where: "/dev/dm-1"}}, "device mapper, md or bcache"},
		"logical volumes and pods": {[]disk.User{{What: "holder", Where: "/dev/dm-0"}, {What: "mount", Where: pod2}}, "device mapper, md or bcache"},
		"swap":                     {[]disk.User{{What: "swap", Where: "/dev/sdb"}}, "a swap"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sdb()
			d.Users = tc.users
			if diff := cmp.Diff(disk.Problemf(disk.InUse, "/dev/sdb is used by %s", tc.want), Ineligible([]disk.BlockDevice{d}, "/var/lib/kubelet")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEntryOf(t *testing.T) {
	t.Parallel()
	fact := func(name string, identity disk.Identity, place string) disk.Fact {
		return disk.Fact{Key: disk.Key{Class: "fast", Name: name}, HostPath: "/mnt/fast/" + name, Identity: identity, Place: place}
	}
	tests := map[string]struct {
		facts []disk.Fact
		users []disk.User
		want  string
	}{
		"no entry":                     {},
		"another disk":                 {facts: []disk.Fact{fact("a", "wwn:naa.5000c500a1b2c302", "dev:8:32")}},
		"a link to it":                 {facts: []disk.Fact{fact("a", "wwn:naa.5000c500a1b2c301", "dev:8:16")}, want: "/mnt/fast/a"},
		"a link to it, not identified": {facts: []disk.Fact{fact("a", "", "dev:8:16")}, want: "/mnt/fast/a"},
		"a link to a partition":        {facts: []disk.Fact{fact("a", "part:wwn:naa.5000c500a1b2c301:u:1048576", "dev:8:17")}, want: "/mnt/fast/a"},
		"links to two of its partitions": {
			facts: []disk.Fact{fact("b", "part:wwn:naa.5000c500a1b2c301:u:1", "dev:8:17"), fact("a", "part:wwn:naa.5000c500a1b2c301:v:2", "dev:8:18")}, want: "/mnt/fast/a",
		},
		"its file system is mounted there": {
			facts: []disk.Fact{fact("a", "fs:u:/@m1", "fs:8:16:/")}, users: []disk.User{{What: "mount", Where: "/mnt/fast/a"}}, want: "/mnt/fast/a",
		},
		"its file system is mounted elsewhere": {
			facts: []disk.Fact{fact("a", "fs:v:/@m1", "fs:8:32:/")}, users: []disk.User{{What: "mount", Where: "/mnt/fast/b"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := map[disk.Key]disk.Fact{}
			for _, f := range tc.facts {
				facts[f.Key] = f
			}
			d := sdb()
			d.Users = tc.users
			got := ""
			if entry := EntryOf(&d, facts); entry != nil {
				got = entry.HostPath
			}
			if got != tc.want {
				t.Errorf("the entry is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDiskSlots(t *testing.T) {
	t.Parallel()
	at := func(id disk.Identity, minute int) stowage.LocalDiskStatus {
		since := metav1.NewTime(time.Unix(int64(minute)*60, 0))
		return stowage.LocalDiskStatus{Identity: string(id), Since: &since}
	}
	full := map[int]stowage.LocalDiskStatus{}
	for slot := range stowage.MaxLocalDisks {
		full[slot] = at(disk.Identity(fmt.Sprintf("wwn:%d", slot)), 1000-slot)
	}
	tests := map[string]struct {
		known   map[int]stowage.LocalDiskStatus
		present []disk.Identity
		want    map[disk.Identity]int
	}{
		"the first ones": {
			present: []disk.Identity{"wwn:b", "wwn:a"}, want: map[disk.Identity]int{"wwn:a": 0, "wwn:b": 1},
		},
		"a disk keeps its slot, and the slot of one that is away": {
			known: map[int]stowage.LocalDiskStatus{0: at("wwn:a", 1), 1: at("wwn:b", 1)}, present: []disk.Identity{"wwn:0", "wwn:b"},
			want: map[disk.Identity]int{"wwn:b": 1, "wwn:0": 2},
		},
		"a disk of a cloud keeps its slot after a restart": {
			known: map[int]stowage.LocalDiskStatus{3: at("vendor:x@m1/boot1", 1)}, present: []disk.Identity{"vendor:x@m1/boot2"},
			want: map[disk.Identity]int{"vendor:x@m1/boot2": 3},
		},
		"the slot of a disk without a name is reused": {
			known: map[int]stowage.LocalDiskStatus{0: at("wwn:a", 1), 1: at("weak:boot1:9", 1)}, present: []disk.Identity{"weak:boot2:7"},
			want: map[disk.Identity]int{"weak:boot2:7": 1},
		},
		"two objects of one disk": {
			known: map[int]stowage.LocalDiskStatus{4: at("wwn:a", 1), 2: at("wwn:a", 1)}, present: []disk.Identity{"wwn:a"},
			want: map[disk.Identity]int{"wwn:a": 2},
		},
		"no slot is left: that of the disk that is missing for the longest time": {
			known: full, present: []disk.Identity{"wwn:255", "wwn:new"}, want: map[disk.Identity]int{"wwn:255": 255, "wwn:new": 254},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, omitted := DiskSlots(tc.known, tc.present)
			if diff := cmp.Diff(tc.want, got); diff != "" || omitted != 0 {
				t.Errorf("%d disks have no slot; -want +got:\n%s", omitted, diff)
			}
		})
	}
}

// TestDiskSlotsProperties: with any disks that come and go, a slot has one disk, a disk that stays
// keeps its slot, the order of the disks does not matter, and a disk has no slot only if all are
// taken.
func TestDiskSlotsProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		known := map[int]stowage.LocalDiskStatus{}
		last := map[disk.Identity]int{}
		for round := range 12 {
			var present []disk.Identity
			for i := range random.IntN(300) {
				if random.IntN(4) > 0 {
					present = append(present, disk.Identity(fmt.Sprintf("wwn:%d", i)))
				} else {
					present = append(present, disk.Identity(fmt.Sprintf("weak:%d:%d", round, i)))
				}
			}
			slots, omitted := DiskSlots(known, present)
			used := map[int]bool{}
			for id, slot := range slots {
				if used[slot] || slot < 0 || slot >= stowage.MaxLocalDisks {
					t.Fatalf("seed %d: slot %d of %s is taken or does not exist", seed, slot, id)
				}
				used[slot] = true
				if before, ok := last[id]; ok && before != slot {
					t.Fatalf("seed %d: %s moves from slot %d to %d", seed, id, before, slot)
				}
			}
			if want := max(0, len(present)-stowage.MaxLocalDisks); omitted != want || len(slots)+omitted != len(present) {
				t.Fatalf("seed %d: %d of %d disks have no slot, want %d", seed, omitted, len(present), want)
			}
			random.Shuffle(len(present), func(i, j int) { present[i], present[j] = present[j], present[i] })
			if again, _ := DiskSlots(known, present); !maps.Equal(slots, again) {
				t.Fatalf("seed %d: another order of the disks changes their slots", seed)
			}
			last = slots
			for id, slot := range slots {
				since := metav1.NewTime(time.Unix(int64(round), 0))
				known[slot] = stowage.LocalDiskStatus{Identity: string(id), Since: &since}
			}
		}
	}
}
