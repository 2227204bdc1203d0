// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// PublishedVolume is a volume of a tombstone's disk.
type PublishedVolume struct {
	Identity, UID string
	Created       time.Time // to the second
	Deleting      bool
	// Shown: the volume is of the tombstone's node, or the report of its node lists the disk with
	// this volume.
	Shown bool
	// OnOtherNode: a node other than the volume's reports the disk.
	OnOtherNode bool
	// Lost: the volume is marked as lost, or its node does not exist.
	Lost bool
}

// Resolved reports whether a tombstone is no longer needed. Either the disk was published again
// after the tombstone was written: it was clean then, because provisioners publish clean disks
// only. Or the volume of the tombstone still exists and its node is back. A tombstone that stayed
// would have data cleaned that is written from now on. A tombstone that retains data is resolved
// only by the second case: it is up to the administrator.
func Resolved(t stowage.Tombstone, volumes []PublishedVolume) bool {
	var since time.Time
	if t.Since != nil {
		since = t.Since.Truncate(time.Second)
	}
	for _, v := range volumes {
		switch {
		case v.Identity != t.Identity || v.OnOtherNode:
		case v.UID == t.VolumeUID:
			if !v.Deleting && !v.Lost {
				return true
			}
		case v.Shown && t.State != stowage.TombstoneRetained && !v.Created.Before(since):
			return true
		}
	}
	return false
}
