// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// unmounted decides about a volume whose disk was unmounted or detached. After a second scan has
// found no disk, a volume without a claim is deleted; one with a claim is Missing, and is marked
// (markOf) so that no pod is scheduled to it, until the disk is back.
func unmounted(s *Slot) Decision {
	if !s.Absent() {
		return wait(stateOf(s.Volume), missing(s))
	}
	return lost(s, stowage.EntryMissing, missing(s))
}

// remounted decides about a volume without a claim whose disk WasAway: it stays if the disk holds
// what it was published with.
func remounted(s *Slot) Decision {
	switch s.Content {
	case disk.ContentUnknown:
		return Decision{Do: Inspect, State: stateOf(s.Volume)}
	case disk.ContentNone:
		return Decision{Do: WriteRecord, State: stateOf(s.Volume)}
	default:
		return lost(s, stateOf(s.Volume), s.FoundAfterAbsence())
	}
}
