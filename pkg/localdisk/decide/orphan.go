// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"time"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// orphan decides about a disk that has a record and no volume, and is dirty or another
// cluster's.
func orphan(s *Slot) Decision {
	r := s.Record
	switch {
	case !s.DirectoryRead:
		return Decision{Do: None, State: stowage.EntrySkipped}
	case s.Fact.Problem != nil:
		return wait(stowage.EntrySkipped, s.Fact.Problem)
	case s.DuplicatePV != "":
		return wait(stowage.EntrySkipped, disk.Problemf(disk.SameBytes, "volume %s already offers this disk", s.DuplicatePV))
	case s.UnmanagedPV != "":
		return wait(stowage.EntrySkipped, disk.Problemf(disk.ForeignVolume, "volume %s offers this disk and lacks the provisioner's labels or annotations: delete it, or adopt it with `kubectl stowage adopt`", s.UnmanagedPV))
	case !s.Configured:
		return wait(stowage.EntrySkipped, disk.Problemf(disk.NotConfigured, "the disk is dirty, and the configuration no longer has class %q", s.Key.Class))
	}
	if problem := s.OfOtherCluster(); problem != nil {
		return wait(stowage.EntryRetained, problem)
	}
	if problem := s.BeingCleaned(); problem != nil {
		return wait(stowage.EntryCleaning, problem)
	}
	switch {
	case r.Cluster != s.Cluster: // acknowledged
		return markClean(s)
	case r.State == disk.Retained:
		return retained(s)
	case r.Policy != disk.Delete:
		return Decision{Do: MarkRetained, State: stowage.EntryRetained}
	case r.State == disk.Cleaning: // the release was decided, and the clean has begun
		return clean(s)
	case s.Acknowledged:
		return markClean(s)
	case r.Phase == disk.PhaseReleased:
		return abandoned(s)
	default:
		return vanished(s)
	}
}

// vanished decides about a volume that is gone without having been released: its data is
// kept, unless the volume never had a claim and its disk is empty.
func vanished(s *Slot) Decision {
	unclaimed := s.Record.Unclaimed()
	switch {
	case !s.NodesAsked: // a tombstone may show that the controller released the volume
		return Decision{Do: AskNodes, State: stowage.EntryRetained}
	case s.ForeignPV != "":
		return wait(stowage.EntrySkipped, s.OfOtherNode())
	case unclaimed && s.Content == disk.ContentUnknown:
		return Decision{Do: Inspect, State: stowage.EntryPending}
	case unclaimed && s.Content == disk.ContentNone:
		return markClean(s)
	default:
		return Decision{Do: MarkRetained, State: stowage.EntryRetained}
	}
}

// abandoned decides about a released volume that is gone before its disk was cleaned:
// the disk is cleaned after a grace period, if the controller allows it.
func abandoned(s *Slot) Decision {
	r := s.Record
	switch {
	case r.Missed.IsZero():
		return Decision{Do: MarkVanished, State: stowage.EntryCleaning}
	case !s.GraceOver:
		return wait(stowage.EntryCleaning, disk.Problemf(disk.OrphanGracePeriod,
			"volume %s was Released and is gone before its disk was cleaned; the disk is cleaned after %s; to keep its data, %s",
			r.Volume, s.GraceUntil.UTC().Format(time.RFC3339), Acknowledge(s.Acknowledgement())))
	case !s.CleanAllowed:
		return wait(stowage.EntryCleaning, disk.Problemf(disk.OrphanCleanWaits,
			"volume %s was Released and is gone before its disk was cleaned; the disk is cleaned once stowage-controller, which limits such cleans over the cluster, allows it; to keep its data, %s",
			r.Volume, Acknowledge(s.Acknowledgement())))
	default:
		return clean(s)
	}
}

// clean cleans a disk without a volume, if nothing uses it.
func clean(s *Slot) Decision {
	switch {
	case !s.NodesAsked: // a disk that was away may hold the data of another node's volume
		return Decision{Do: AskNodes, State: stowage.EntryCleaning}
	case s.ForeignPV != "":
		return wait(stowage.EntrySkipped, s.OfOtherNode())
	}
	if decision, ok := idle(s, stowage.EntryCleaning); !ok {
		return decision
	}
	return Decision{Do: Clean, State: stowage.EntryCleaning, Generation: next(s)}
}

// next returns the generation of the disk's next volume. A claim whose volume is gone must not
// become bound to a new one of the same name.
func next(s *Slot) int64 {
	if s.Record.Volume != "" {
		return s.Record.Generation + 1
	}
	return s.Record.Generation
}

// markClean increments the generation even if the record names no volume, since the data may
// have been acknowledged by the generation.
func markClean(s *Slot) Decision {
	return Decision{Do: MarkClean, State: stowage.EntryPending, Generation: s.Record.Generation + 1}
}

// retained decides about a disk that was kept with its data.
func retained(s *Slot) Decision {
	r := s.Record
	switch {
	case s.Acknowledged || s.Content == disk.ContentNone:
		return markClean(s)
	case s.Content == disk.ContentUnknown:
		return Decision{Do: Inspect, State: stowage.EntryRetained}
	case s.Content == disk.ContentSampled:
		return Decision{Do: ProveBlank, State: stowage.EntryRetained, Problem: s.ProvingBlank()}
	case r.Policy != disk.Delete:
		return wait(stowage.EntryRetained, disk.Problemf(disk.RetainedDirty,
			"holds %s of volume %s, whose reclaim policy was not Delete: empty the disk, or copy what you need, %s", s.Found, r.Volume, Acknowledge(s.Acknowledgement())))
	case r.Phase == disk.PhaseBound || r.Phase == disk.PhaseOfFailed:
		return wait(stowage.EntryRetained, disk.Problemf(disk.VolumeVanished,
			"holds %s of volume %s, which was %s and is gone although it was never released: etcd was restored, or the volume was removed by force; restore the volume, or copy what you need, %s",
			s.Found, r.Volume, r.Phase, Acknowledge(s.Acknowledgement())))
	default:
		return wait(stowage.EntryRetained, disk.Problemf(disk.VolumeVanished,
			"holds %s, and volume %s, which had no claim, is gone: empty the disk, or copy what you need, %s", s.Found, r.Volume, Acknowledge(s.Acknowledgement())))
	}
}

// OfOtherCluster returns the problem of a disk whose record another cluster wrote; nil if
// this cluster did, or an administrator acknowledged it.
func (s *Slot) OfOtherCluster() *disk.Problem {
	r := s.Record
	if r == nil {
		r = s.Predecessor()
	}
	if !s.OtherClusters(r) {
		return nil
	}
	of := "another cluster"
	if r.Cluster != "" {
		of += " (kube-system has UID " + r.Cluster + ")"
	}
	return disk.Problemf(disk.OtherCluster,
		"this node's record of the disk is from %s, so its data may be in use there: make sure that it is not; %s", of, Acknowledge(s.Acknowledgement()))
}

// OtherClusters reports whether another cluster wrote a record and no administrator
// acknowledged it. The record and its disk must not be changed then.
func (s *Slot) OtherClusters(r *disk.Record) bool {
	acknowledged := s.Acknowledged && r != nil && (s.Record == nil || r.Identity == s.Record.Identity)
	return r != nil && r.Cluster != s.Cluster && !acknowledged
}

// Acknowledge returns the end of a message that explains how to acknowledge data.
func Acknowledge(name string) string {
	return "then acknowledge it with `kubectl stowage acknowledge` or annotation stowage.dev/publish-retained=" + name + " on the node's LocalDiskReport"
}

// OfOtherNode returns the problem of a disk that ForeignPV has.
func (s *Slot) OfOtherNode() *disk.Problem {
	return disk.Problemf(disk.OtherNodesVolume,
		"%s has this disk's identity, so its data may be that volume's: move the disk to that node; delete the volume if it is not needed; or, if these are two disks, remove this node's record of its own disk", s.ForeignPV)
}

// BeingCleaned returns the problem of a disk that Cleaner may write to; nil if there is none.
func (s *Slot) BeingCleaned() *disk.Problem {
	if s.Cleaner == 0 {
		return nil
	}
	return disk.Problemf(disk.TimedOut,
		"process %d, an earlier provisioner, was killed while it cleaned and cannot end because a disk does not answer: the disk is not touched until the process has ended; check the disk and the kernel's log, or restart the node", s.Cleaner)
}

// ProvingBlank returns why a disk that has to be blank is not published yet.
func (s *Slot) ProvingBlank() *disk.Problem {
	return disk.Problemf(disk.ProvingBlank, "no data was found so far; all of its %d bytes are read before it is published", s.Fact.Bytes)
}

// idle reports whether the disk is unused. If not, the decision says what to do.
func idle(s *Slot, state stowage.EntryState) (Decision, bool) {
	if problem := s.BeingCleaned(); problem != nil {
		return wait(state, problem), false
	}
	if !s.UsersKnown {
		return Decision{Do: FindUsers, State: state}, false
	}
	if len(s.Users) > 0 {
		return wait(state, disk.Problemf(disk.VolumeInUse, "used by %s", s.Users[0])), false
	}
	return Decision{}, true
}

func wait(state stowage.EntryState, problem *disk.Problem) Decision {
	return Decision{Do: None, State: state, Problem: problem}
}
