// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"slices"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Predecessors returns the records of dirty disks that a disk without a record may be. Weak
// identities (disk.Identity.Weak) change when the node restarts or the disk is attached again,
// so the record of such a disk is found by its path. at are the records of the path, weak the
// weak identities of all dirty disks, and present the identities of all disks that are
// attached now, this one included: their records belong to them. predecessors are ordered by
// generation, the latest first. unaccounted reports whether a dirty disk of any path may be
// this one.
func Predecessors(identity disk.Identity, at []disk.Record, weak []disk.Identity, present map[disk.Identity]bool) (predecessors []disk.Record, unaccounted bool) {
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

// Predecessor returns the strictest predecessor: one of another cluster, else one whose data
// is to be kept, else the latest; nil if there is none.
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
