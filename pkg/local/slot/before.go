// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import "stowage.dev/stowage/pkg/local/disk"

// Before finds out which dirty disk of the node's records the disk at a path may be, of
// which there is no record. Identities that do not last (disk.Identity.Weak) are others
// after a restart of the node or when the disk is attached again, so the record of a disk
// that still holds data is found by its path alone. predecessor is that record, the latest
// if there are several; nil if there is none. unaccounted reports whether a dirty disk that
// was at any path may be the one that is here. present are the identities of the disks
// that are here now: their records are their own.
func Before(path string, identity disk.Identity, records []disk.Record, present map[disk.Identity]bool) (predecessor *disk.Record, unaccounted bool) {
	for i := range records {
		r := &records[i]
		if !r.State.Dirty() || present[r.Identity] || !mayBe(r, identity, r.HostPath == path) {
			continue
		}
		unaccounted = true
		if r.HostPath == path && (predecessor == nil || r.Generation > predecessor.Generation) {
			predecessor = r
		}
	}
	return predecessor, unaccounted
}

// mayBe reports whether the disk of a record, which is not here under its own identity, may
// be the one of another identity.
func mayBe(r *disk.Record, identity disk.Identity, samePath bool) bool {
	if samePath {
		return identity.MayFollow(r.Identity)
	}
	return r.Identity.Weak() && identity.Weak() && r.Identity.Compare(identity) == disk.Unproven
}
