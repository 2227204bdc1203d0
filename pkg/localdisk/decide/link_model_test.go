// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"math/rand/v2"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestLinkModel: a volume's device is exchanged, formatted, damaged and repaired in any order,
// kubelet mounts whenever there is a link, and formats where it finds nothing. As long as
// what happens is observed before kubelet's next mount, kubelet never formats a device that
// held data, and never mounts another device than the volume's.
func TestLinkModel(t *testing.T) {
	testModel(t, (*model).mount, func() *model {
		return &model{slot: proven(noLink, recorded(&disk.Format{})), devices: map[disk.Identity]*disk.Superblock{same: {}, other: {}}}
	})
}

// TestMountModel is TestLinkModel for a volume that the provisioner mounts: mounted is the volume's
// device with the file system that was made on it, whenever the entry leads to it, and nothing else.
func TestMountModel(t *testing.T) {
	testModel(t, (*model).mounted, func() *model {
		m := &model{slot: proven(noLink), devices: map[disk.Identity]*disk.Superblock{same: {Format: ext4}, other: {}}}
		m.slot.Volume.Link = disk.MountFolder + "/fast/v"
		return m
	})
}

// testModel has things happen to a volume. wrong returns what is wrong when the provisioner has
// observed them.
func testModel(t *testing.T, wrong func(*model) string, begin func() *model) {
	for seed := range uint64(20_000) {
		m := begin()
		m.rand, m.at = rand.New(rand.NewPCG(seed, 1)), same
		for step := range 30 {
			m.happen()
			m.settle(t)
			if wrong := wrong(m); wrong != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, wrong)
			}
		}
	}
}

type model struct {
	rand    *rand.Rand
	slot    *decide.Slot
	devices map[disk.Identity]*disk.Superblock
	at      disk.Identity // what the entry leads to; empty: nothing
	data    bool          // pods have written to the volume
}

// happen changes a device between two mounts.
func (m *model) happen() {
	here := m.devices[m.at]
	switch m.rand.IntN(9) {
	case 0:
		m.at = same
	case 1:
		m.at = other
	case 2:
		m.at = ""
	case 3:
		if here != nil {
			*here = disk.Superblock{}
		}
	case 4:
		if here != nil {
			*here = disk.Superblock{Problem: disk.Problemf(disk.Unreadable, "")}
		}
	case 5:
		if here != nil {
			*here = disk.Superblock{Other: "something"}
		}
	case 6: // copied
		*m.devices[other] = *m.devices[same]
	case 7, 8: // repaired
		if m.slot.VolumeRecord.Filesystem.Type != "" {
			*m.devices[same] = disk.Superblock{Format: *m.slot.VolumeRecord.Filesystem}
		}
	}
}

// settle acts as the provisioner, until there is nothing to do.
func (m *model) settle(t *testing.T) {
	s := m.slot
	s.Fact, s.Superblock = nil, nil
	if m.at != "" {
		s.Fact = &disk.Fact{Kind: disk.Device, Device: "/dev/" + string(m.at), Identity: m.at, Bytes: 1 << 30}
	}
	for range 10 {
		switch d := decide.Link(s); d.Do {
		case decide.None:
			return
		case decide.ReadSuperblock:
			read := *m.devices[m.at]
			s.Superblock = &read
		case decide.RecordFilesystem:
			f := s.Superblock.Format
			s.VolumeRecord.Filesystem, s.Superblock = &f, nil
		case decide.AddLink:
			s.Link = s.Fact.Device
		case decide.RemoveLink:
			s.Link = ""
		}
	}
	t.Fatal("there is no end of decisions")
}

// mount acts as kubelet. It returns what kubelet did wrong.
func (m *model) mount() string {
	if m.slot.Link == "" {
		return ""
	}
	identity := disk.Identity(m.slot.Link[len("/dev/"):])
	if identity != same {
		return "kubelet mounts another device"
	}
	switch sb := m.devices[identity]; {
	case sb.Format.Type == "ext4":
	case sb.Other != "":
		return "" // kubelet rejects an unknown file system
	case m.data:
		return "kubelet formats a device that held data"
	default: // a read error counts as blank
		*sb = disk.Superblock{Format: disk.Format{Type: "ext4", UUID: string(rune('a' + m.rand.IntN(26)))}}
		m.data = true
		m.slot.Superblock = nil
		for d := decide.Link(m.slot); d.Do != decide.None; d = decide.Link(m.slot) { // its mount is an event
			if d.Do == decide.ReadSuperblock {
				read := *sb
				m.slot.Superblock = &read
			}
			if d.Do == decide.RecordFilesystem {
				f := sb.Format
				m.slot.VolumeRecord.Filesystem, m.slot.Superblock = &f, nil
			}
		}
	}
	return ""
}

// mounted returns what is wrong with the provisioner's mount, or its absence.
func (m *model) mounted() string {
	intact := *m.devices[same] == disk.Superblock{Format: ext4}
	switch {
	case m.slot.Link == "" && m.at == same && intact:
		return "the volume's device is not mounted"
	case m.slot.Link == "":
	case m.slot.Link != "/dev/"+string(same):
		return "another device is mounted"
	case !intact:
		return "another file system than the volume's is mounted"
	}
	return ""
}
