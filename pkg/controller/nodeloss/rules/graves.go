// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import "time"

// Grave is a tombstone in a report.
type Grave struct {
	Identity, VolumeUID string
	Since               time.Time
	// Retained says that the disk's data is kept.
	Retained bool
}

// Offered is a volume that stands for a disk with a tombstone.
type Offered struct {
	Identity, UID string
	Created       time.Time // to the second
	Deleting      bool
	// Shown says that the volume is of the tombstone's own node, or that the report of its
	// node has the disk with this very volume.
	Shown bool
	// Elsewhere says that another node than the volume's says that it has the disk.
	Elsewhere bool
	// Lost says that it is marked as lost, or that its node is away.
	Lost bool
}

// Settled says whether a tombstone has nothing to say any more: the disk was published
// again later, so it had been cleaned, as no agent makes a volume of one that is not,
// whatever became of that volume since; or the volume it stands for was never removed,
// and is within reach again. A tombstone that stayed would have what is written now
// destroyed later. One that has data kept destroys nothing, and no agent's volume says
// that nobody wants the data any more: it is the administrator's.
func Settled(g Grave, volumes []Offered) bool {
	for _, v := range volumes {
		switch {
		case v.Identity != g.Identity || v.Elsewhere:
		case v.UID == g.VolumeUID:
			if !v.Deleting && !v.Lost {
				return true
			}
		case v.Shown && !g.Retained && !v.Created.Before(g.Since.Truncate(time.Second)):
			return true
		}
	}
	return false
}
