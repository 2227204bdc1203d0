// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package reclaim

import (
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// orphan decides about a disk that has a record and no volume, and is dirty or another
// cluster's.
func orphan(s *slot.Slot) slot.Decision {
	r := s.Record
	switch {
	case !s.Looked:
		return slot.Decision{Do: slot.None, State: slot.Skipped}
	case s.Fact.Problem != nil:
		return wait(slot.Skipped, s.Fact.Problem)
	case s.Elsewhere != "":
		return wait(slot.Skipped, disk.Problemf(disk.SameBytes, "volume %s already offers this disk", s.Elsewhere))
	case s.Foreign != "":
		return wait(slot.Skipped, disk.Problemf(disk.ForeignVolume, "volume %s offers this disk and has not, or not any more, the agent's marks: delete it, or take it over with `stowage-provisioner adopt`", s.Foreign))
	case !s.Configured:
		return wait(slot.Skipped, disk.Problemf(disk.NotConfigured, "the disk is dirty, and the configuration has no class %q any more", s.Key.Class))
	}
	if problem := s.OfOtherCluster(); problem != nil {
		return wait(slot.Retained, problem)
	}
	if problem := s.BeingCleaned(); problem != nil {
		return wait(slot.Cleaning, problem)
	}
	switch {
	case r.Cluster != s.Cluster: // acknowledged
		return absolve(s)
	case r.State == disk.Retained:
		return retained(s)
	case r.Policy != disk.Delete:
		return slot.Decision{Do: slot.MarkRetained, State: slot.Retained}
	case r.State == disk.Cleaning: // the release was decided, and the clean has begun
		return clean(s)
	case s.Acknowledged:
		return absolve(s)
	case r.Phase == disk.PhaseReleased:
		return abandoned(s)
	default:
		return vanished(s)
	}
}

// vanished decides about a volume that is gone without having been released: its data
// is kept. One that never had a claim has none to keep if its disk is empty.
func vanished(s *slot.Slot) slot.Decision {
	unclaimed := s.Record.Unclaimed()
	switch {
	case !s.Asked: // a tombstone may say that the controller released the volume
		return slot.Decision{Do: slot.AskNodes, State: slot.Retained}
	case s.ForeignPV != "":
		return wait(slot.Skipped, s.OfOtherNode())
	case unclaimed && s.Content == disk.ContentUnknown:
		return slot.Decision{Do: slot.Inspect, State: slot.Pending}
	case unclaimed && s.Content == disk.ContentNone:
		return absolve(s)
	default:
		return slot.Decision{Do: slot.MarkRetained, State: slot.Retained}
	}
}

// abandoned decides about a released volume that is gone before its disk was cleaned:
// the disk is cleaned after a grace period, if the controller allows it.
func abandoned(s *slot.Slot) slot.Decision {
	r := s.Record
	switch {
	case r.Missed.IsZero():
		return slot.Decision{Do: slot.Miss, State: slot.Cleaning}
	case !s.GraceOver:
		return wait(slot.Cleaning, disk.Problemf(disk.OrphanGracePeriod,
			"volume %s was Released and is gone before its disk was cleaned; the disk is cleaned after %s; to keep its data, %s",
			r.Volume, s.GraceUntil.UTC().Format(time.RFC3339), slot.Acknowledge(s.Acknowledgement())))
	case !s.Granted:
		return wait(slot.Cleaning, disk.Problemf(disk.OrphanCleanWaits,
			"volume %s was Released and is gone before its disk was cleaned; the disk is cleaned once stowage-controller, which limits such cleans over the cluster, allows it; to keep its data, %s",
			r.Volume, slot.Acknowledge(s.Acknowledgement())))
	default:
		return clean(s)
	}
}

// clean wipes a disk without a volume, if nothing uses it.
func clean(s *slot.Slot) slot.Decision {
	switch {
	case !s.Asked: // a disk that was away may have come back with the data of others
		return slot.Decision{Do: slot.AskNodes, State: slot.Cleaning}
	case s.ForeignPV != "":
		return wait(slot.Skipped, s.OfOtherNode())
	}
	if decision, ok := idle(s, slot.Cleaning); !ok {
		return decision
	}
	return slot.Decision{Do: slot.Wipe, State: slot.Cleaning, Generation: next(s)}
}

// next is the generation of the disk's next volume. A claim that lost a volume must not
// find another one of its name.
func next(s *slot.Slot) int64 {
	if s.Record.Volume != "" {
		return s.Record.Generation + 1
	}
	return s.Record.Generation
}

// absolve has another generation even if the record names no volume, since the generation may
// be what the data was acknowledged by.
func absolve(s *slot.Slot) slot.Decision {
	return slot.Decision{Do: slot.MarkClean, State: slot.Pending, Generation: s.Record.Generation + 1}
}

// retained decides about a disk that was kept with its data.
func retained(s *slot.Slot) slot.Decision {
	r := s.Record
	switch {
	case s.Acknowledged || s.Content == disk.ContentNone:
		return absolve(s)
	case s.Content == disk.ContentUnknown:
		return slot.Decision{Do: slot.Inspect, State: slot.Retained}
	case s.Content == disk.ContentSampled:
		return slot.Decision{Do: slot.ProveBlank, State: slot.Retained, Problem: s.ProvingBlank()}
	case r.Policy != disk.Delete:
		return wait(slot.Retained, disk.Problemf(disk.RetainedDirty,
			"holds %s of volume %s, whose reclaim policy was not Delete: empty the disk, or copy what you need, %s", s.Found, r.Volume, slot.Acknowledge(s.Acknowledgement())))
	case r.Phase == disk.PhaseBound || r.Phase == disk.PhaseOfFailed:
		return wait(slot.Retained, disk.Problemf(disk.VolumeVanished,
			"holds %s of volume %s, which was %s and is gone although it was never released: etcd was restored, or the volume was removed by force; restore the volume, or copy what you need, %s",
			s.Found, r.Volume, r.Phase, slot.Acknowledge(s.Acknowledgement())))
	default:
		return wait(slot.Retained, disk.Problemf(disk.VolumeVanished,
			"holds %s, and volume %s, which had no claim, is gone: empty the disk, or copy what you need, %s", s.Found, r.Volume, slot.Acknowledge(s.Acknowledgement())))
	}
}
