// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Link decides about the link of a slot's volume: ReadSuperblock, RecordFilesystem, AddLink,
// RemoveLink or None. Problem is why the link is withheld, if no other rule reports that.
// State is not set.
//
// kubelet uses whatever device is at a local volume's path, and formats it at every first
// mount when blkid finds nothing on it, even if the volume is bound and had a file system. So
// the path of such a volume is a link (disk.Volume.Link) that exists only while the device is
// proven to be the volume's and, for volume mode Filesystem, its content is what the node's
// record says: nothing before the first use, the same file system afterwards. Without the link
// kubelet does not start pods. Existing mounts are not affected.
//
// If the provisioner mounts the volume's file system, all this is said of the mount: the path is
// a folder in the file system.
func Link(s *Slot) Decision {
	v := s.Volume
	switch {
	case v == nil || v.Link == "":
		return Decision{Do: None}
	case reclaimed(v):
		return withhold(s, nil)
	case !s.DirectoryRead: // nothing contradicts what was proven before
		return Decision{Do: None}
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

// reclaimed reports whether pods may no longer use the volume.
func reclaimed(v *disk.Volume) bool {
	return v.Phase == disk.PhaseReleased || v.Phase == disk.PhaseOfFailed || v.Deleting && v.Phase != disk.PhaseBound
}

// contested reports whether with a problem it is unknown which device is the volume's, or
// whether it can be read. kubelet's mount fails for a device that is in use or read-only.
func contested(p *disk.Problem) bool {
	return p != nil && p.Reason != disk.InUse && p.Reason != disk.ReadOnly
}

// content decides by what is on the device.
func content(s *Slot, match disk.Match) Decision {
	v, r, read := s.Volume, s.VolumeRecord, s.Superblock
	switch {
	case r == nil || !isOf(r, v) || r.State != disk.Published:
		return withhold(s, nil) // the record is written first
	case read == nil:
		return Decision{Do: ReadSuperblock}
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
		return Decision{Do: RecordFilesystem}
	case known:
		return withhold(s, changed(s))
	default:
		return unformatted(s)
	}
}

// confirmed reports whether a device whose identity changes at a restart is nevertheless the
// volume's: it has the volume's size and the random UUID with which the volume was formatted.
// Writing that UUID requires access to the device itself, which no pod has.
func confirmed(s *Slot) bool {
	return s.Match() == disk.Unproven && s.VolumeRecord.Filesystem.UUID != "" &&
		(s.Volume.DiskBytes == 0 || s.Volume.DiskBytes == s.Fact.Bytes)
}

// unformatted decides about a volume of which no file system is recorded.
func unformatted(s *Slot) Decision {
	v, blank, read := s.Volume, s.VolumeRecord.Filesystem != nil, s.Superblock
	switch {
	case read.Blank() && v.Mounted(): // it was made before the volume was published
		return withhold(s, disk.Problemf(disk.SignatureLost, "no file system is on the device: restore its superblock, or delete the claim and the volume %s", v.Name))
	case read.Blank() && blank:
		return allow(s)
	case read.Blank() && !v.Claimed:
		return Decision{Do: RecordFilesystem}
	case read.Blank():
		return withhold(s, disk.Problemf(disk.SignatureLost,
			"no file system is on the device, and the node has no record of whether volume %s had one: restore it, or delete the claim and the volume", v.Name))
	case read.Format.Type == v.FSType && (v.Claimed || !blank): // formatted by kubelet since
		return Decision{Do: RecordFilesystem}
	default:
		return withhold(s, changed(s))
	}
}

// changed returns why a device with other content than recorded is withheld.
func changed(s *Slot) *disk.Problem {
	v, read, was := s.Volume, s.Superblock, "nothing that is recorded"
	recorded := s.VolumeRecord.Filesystem
	if recorded != nil {
		was = recorded.String()
	}
	switch {
	case read.Format.Type != "":
		return disk.Problemf(disk.FilesystemChanged,
			"the device held %s and holds %s now, so it is withheld from kubelet: if that is the volume's, annotate volume %s with stowage.dev/same-filesystem=%s", was, read.Holds(), v.Name, read.Format)
	case recorded != nil && recorded.Type == "":
		return disk.Problemf(disk.FilesystemChanged,
			"the device was blank and holds %s now, so it is withheld from kubelet: remove that with wipefs --all (an interrupted mkfs may leave it), or delete the claim and the volume", read.Holds())
	default:
		return disk.Problemf(disk.SignatureLost,
			"the device held %s and holds %s now, so it is withheld from kubelet: restore the file system's superblock, or delete the claim and the volume", was, read.Holds())
	}
}

func allow(s *Slot) Decision {
	if s.Link == s.Fact.Device {
		return Decision{Do: None}
	}
	return Decision{Do: AddLink}
}

func withhold(s *Slot, why *disk.Problem) Decision {
	if s.Link == "" {
		return Decision{Do: None, Problem: why}
	}
	return Decision{Do: RemoveLink, Problem: why}
}
