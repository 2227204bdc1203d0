// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"slices"

	"stowage.dev/stowage/pkg/local/disk"
)

// Before finds out which dirty disk of the node's records the disk at a path may be, of
// which there is no record. Identities that do not last (disk.Identity.Weak) are others
// after a restart of the node or when the disk is attached again, so the record of a disk
// that still holds data is found by its path alone. at are the records of the path, weak the
// weak identities of all dirty disks. predecessor is the record, the latest if there are
// several; nil if there is none. unaccounted reports whether a dirty disk that was at any
// path may be the one that is here. present are the identities of the disks that are here
// now, this one among them: their records are their own.
func Before(identity disk.Identity, at []disk.Record, weak []disk.Identity, present map[disk.Identity]bool) (predecessor *disk.Record, unaccounted bool) {
	for i := range at {
		r := &at[i]
		if r.State.Dirty() && !present[r.Identity] && identity.MayFollow(r.Identity) && (predecessor == nil || r.Generation > predecessor.Generation) {
			predecessor = r
		}
	}
	return predecessor, predecessor != nil || identity.Weak() && slices.ContainsFunc(weak, func(other disk.Identity) bool {
		return !present[other] && other.Compare(identity) == disk.Unproven
	})
}
