// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"cmp"
	"slices"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Before finds out which dirty disks of the node's records the disk at a path may be, of
// which there is no record. Identities that do not last (disk.Identity.Weak) are others
// after a restart of the node or when the disk is attached again, so the record of a disk
// that still holds data is found by its path alone. at are the records of the path, weak the
// weak identities of all dirty disks. predecessors are the records, the latest first.
// unaccounted reports whether a dirty disk that was at any path may be the one that is here.
// present are the identities of the disks that are here now, this one among them: their
// records are their own.
func Before(identity disk.Identity, at []disk.Record, weak []disk.Identity, present map[disk.Identity]bool) (predecessors []disk.Record, unaccounted bool) {
	for i := range at {
		if r := &at[i]; r.State.Dirty() && !present[r.Identity] && identity.MayFollow(r.Identity) {
			predecessors = append(predecessors, *r)
		}
	}
	slices.SortStableFunc(predecessors, func(a, b disk.Record) int { return cmp.Compare(b.Generation, a.Generation) })
	return predecessors, len(predecessors) > 0 || identity.Weak() && slices.ContainsFunc(weak, func(other disk.Identity) bool {
		return !present[other] && other.Compare(identity) == disk.Unproven
	})
}

// Predecessor is the predecessor that forbids most: one of another cluster, else one whose
// data is to be kept, else the latest; nil if there is none.
func (s *Slot) Predecessor() *disk.Record {
	if len(s.Predecessors) == 0 {
		return nil
	}
	rank := func(r disk.Record) int {
		switch {
		case r.Cluster != s.Cluster:
			return 0
		case r.Kept():
			return 1
		default:
			return 2
		}
	}
	strictest := slices.MinFunc(s.Predecessors, func(a, b disk.Record) int { return cmp.Compare(rank(a), rank(b)) })
	return &strictest
}
