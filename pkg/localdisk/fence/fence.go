// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fence decides whether kubelet may find the device of a volume.
//
// kubelet uses whatever device is at a local volume's path, and formats it at every
// first mount when blkid finds nothing on it, also when the volume is bound and had a
// file system. So the path of such a volume is a link (disk.Volume.Link) that exists
// only while it is proven that the device is the volume's, and, for volume mode
// Filesystem, that on it is what the node's record says: nothing before the first use,
// the same file system ever after. Without the link kubelet refuses to start pods.
// Mounts that exist are not affected.
package fence

import (
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// Decide returns what to do next about the link of a slot's volume: ReadSuperblock,
// RecordFilesystem, AddLink, RemoveLink or None. Problem is why the link is withheld, if
// no other rule reports that. State is left to others.
func Decide(s *slot.Slot) slot.Decision {
	v := s.Volume
	switch {
	case v == nil || v.Link == "":
		return slot.Decision{Do: slot.None}
	case reclaimed(v):
		return withhold(s, nil)
	case !s.Looked: // nothing is known that speaks against what was proven before
		return slot.Decision{Do: slot.None}
	case s.Vacant() || s.Fact.Kind != disk.Device || s.Fact.Device == "" || contested(s.Fact.Problem):
		return withhold(s, nil)
	}
	match := s.Match()
	switch {
	case match == disk.Different || s.Fact.Identity == "":
		return withhold(s, nil)
	case v.Mode == disk.Filesystem:
		return content(s, match)
	case match == disk.Same:
		return allow(s)
	default:
		return withhold(s, nil)
	}
}

// With adds a decision about the link to a decision about the slot. Removing the link goes
// before everything else; all other work on it comes after.
func With(d, link slot.Decision) slot.Decision {
	if link.Do == slot.RemoveLink || d.Do == slot.None {
		d.Do = link.Do
	}
	if d.Problem == nil {
		d.Problem = link.Problem
	}
	return d
}

// reclaimed reports whether no pod may use the volume any more.
func reclaimed(v *disk.Volume) bool {
	return v.Phase == disk.PhaseReleased || v.Phase == disk.PhaseOfFailed || v.Deleting && v.Phase != disk.PhaseBound
}

// contested reports whether a problem leaves open which device is the volume's, or whether
// it can be read. What else uses a device, and that it is read-only, is left to kubelet,
// which fails to mount it then.
func contested(p *disk.Problem) bool {
	return p != nil && p.Reason != disk.InUse && p.Reason != disk.ReadOnly
}

// content decides by what is on the device.
func content(s *slot.Slot, match disk.Match) slot.Decision {
	v, r, read := s.Volume, s.VolumeRecord, s.Superblock
	switch {
	case r == nil || r.Volume != v.Name || r.UID != "" && r.UID != v.UID || r.State != disk.Published:
		return withhold(s, nil) // the record is written first
	case read == nil:
		return slot.Decision{Do: slot.ReadSuperblock}
	case read.Problem != nil:
		return withhold(s, read.Problem)
	}
	recorded := r.Filesystem
	known := recorded != nil && recorded.Type != ""
	switch {
	case known && read.Format == *recorded:
		if match != disk.Same && !confirmed(s) {
			return withhold(s, nil)
		}
		return allow(s)
	case match != disk.Same:
		return withhold(s, nil)
	case read.Format.Type != "" && v.AcceptedFormat == read.Format.String():
		return slot.Decision{Do: slot.RecordFilesystem}
	case known:
		return withhold(s, changed(s))
	default:
		return unformatted(s)
	}
}

// confirmed reports whether a device without an identity that outlives a boot is the
// volume's all the same: it has the volume's size, and shows a UUID that was made at random
// when the volume was formatted. No pod can write that: it needs the device itself.
func confirmed(s *slot.Slot) bool {
	return s.Match() == disk.Unproven && s.VolumeRecord.Filesystem.UUID != "" &&
		(s.Volume.DiskBytes == 0 || s.Volume.DiskBytes == s.Fact.Bytes)
}

// unformatted decides about a volume of which no file system is recorded.
func unformatted(s *slot.Slot) slot.Decision {
	v, blank, read := s.Volume, s.VolumeRecord.Filesystem != nil, s.Superblock
	switch {
	case read.Blank() && blank:
		return allow(s)
	case read.Blank() && !v.Claimed:
		return slot.Decision{Do: slot.RecordFilesystem}
	case read.Blank():
		return withhold(s, disk.Problemf(disk.SignatureLost,
			"no file system is on the device, and the node has no record of whether volume %s had one: restore it, or delete the claim and the volume", v.Name))
	case read.Format.Type == v.FSType && (v.Claimed || !blank): // made by kubelet since
		return slot.Decision{Do: slot.RecordFilesystem}
	default:
		return withhold(s, changed(s))
	}
}

// changed is why a device with another content than recorded is withheld.
func changed(s *slot.Slot) *disk.Problem {
	v, read, was := s.Volume, s.Superblock, "nothing that is recorded"
	if f := s.VolumeRecord.Filesystem; f != nil {
		was = f.String()
	}
	if read.Format.Type == "" {
		return disk.Problemf(disk.SignatureLost,
			"the device held %s and holds %s now, so kubelet is kept from it: restore the file system's superblock, or delete the claim and the volume", was, read.Holds())
	}
	return disk.Problemf(disk.FilesystemChanged,
		"the device held %s and holds %s now, so kubelet is kept from it: if that is the volume's, annotate volume %s with stowage.dev/same-filesystem=%s", was, read.Holds(), v.Name, read.Format)
}

func allow(s *slot.Slot) slot.Decision {
	if s.Link == s.Fact.Device {
		return slot.Decision{Do: slot.None}
	}
	return slot.Decision{Do: slot.AddLink}
}

func withhold(s *slot.Slot, why *disk.Problem) slot.Decision {
	if s.Link == "" {
		return slot.Decision{Do: slot.None, Problem: why}
	}
	return slot.Decision{Do: slot.RemoveLink, Problem: why}
}
