// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

import (
	"path"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// check returns why there can be no volume, or nil.
func (r *Request) check() *disk.Problem {
	switch {
	case r.Disk.Problem != nil:
		return r.Disk.Problem
	case r.Node.Name == "" || r.Node.Hostname == "":
		return disk.Problemf(disk.NotConfigured, "the node's label %s is not known, so no volume can be tied to the node", corev1.LabelHostname)
	case r.Generation < FirstGeneration:
		return disk.Problemf(disk.BadRecord, "generation %d of the disk's volume is below %d", r.Generation, FirstGeneration)
	}
	if problem := r.checkClass(); problem != nil {
		return problem
	}
	return r.checkDisk()
}

func (r *Request) checkClass() *disk.Problem {
	if r.Class == nil || r.Class.Name != r.Disk.Class {
		return disk.Problemf(disk.ClassMissing, "StorageClass %q does not exist: create it", r.Disk.Class)
	}
	switch policy := reclaimPolicy(r.Class); policy {
	case corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain:
		return nil
	default:
		return disk.Problemf(disk.BadClass, "StorageClass %q has reclaimPolicy %s, which local volumes cannot have: make it Delete or Retain", r.Class.Name, policy)
	}
}

func (r *Request) checkDisk() *disk.Problem {
	d := &r.Disk
	switch {
	case !utf8.ValidString(d.HostPath) || !utf8.ValidString(d.Name):
		// Encoded, it would become another path.
		return disk.Problemf(disk.Unreadable, "the path %q is not text in UTF-8, so no volume can name it: rename the entry", d.HostPath)
	case !path.IsAbs(d.HostPath) || path.Clean(d.HostPath) != d.HostPath || path.Base(d.HostPath) != d.Name || d.Name == "/":
		return disk.Problemf(disk.OutsideDirectory, "the path %q is not that of an entry %q", d.HostPath, d.Name)
	case r.Offer.Mode != disk.Filesystem && r.Offer.Mode != disk.Block:
		return disk.Problemf(disk.WrongVolumeMode, "the class has volume mode %q: make it Filesystem or Block", r.Offer.Mode)
	case r.Offer.Mode == disk.Block && d.Kind != disk.Device:
		return disk.Problemf(disk.WrongVolumeMode, "a %s cannot be offered as a block device", d.Kind)
	case d.Bytes <= 0:
		return disk.Problemf(disk.Empty, "the disk has no bytes")
	case d.Identity == "":
		return disk.Problemf(disk.IdentityUnproven, "nothing distinguishes this disk from others")
	}
	return nil
}
