// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/metrics"
)

// Entry is what was last reported about a path.
type Entry struct {
	stowage.Entry
	// freed is when the volume was released, appeared when the disk of a volume that was just
	// published was first found; zero after they were measured.
	freed, appeared time.Time
	// failing is an action that has failed so far.
	failing decide.Action
	// marking reports whether the volume's mark of its disk is about to change.
	marking bool
}

// RetriesOnScan reports whether a path waits for something that a scan may find changed.
func (e *Entry) RetriesOnScan() bool {
	if e == nil {
		return false
	}
	switch disk.Reason(e.Reason) {
	case disk.VolumeInUse, disk.InUse, disk.BadRecord, disk.SameBytes:
		return true
	default:
		return false
	}
}

// observeAvailable measures once how long it took until a volume was Available: from when its
// disk was first found, or from when the volume before it was released.
func (e *Entry) observeAvailable() {
	now := time.Now()
	switch {
	case !e.freed.IsZero():
		metrics.ObserveReleasedAvailable(now.Sub(e.freed))
	case !e.appeared.IsZero():
		metrics.ObserveDiskAvailable(now.Sub(e.appeared))
	}
	e.freed, e.appeared = time.Time{}, time.Time{}
}

// describe returns the report's entry of a slot.
func describe(s *decide.Slot, d decide.Decision) stowage.Entry {
	now := metav1.Now()
	e := stowage.Entry{Class: s.Key.Class, Name: s.Key.Name, Path: s.Path, State: d.State, Since: &now}
	if f := s.Fact; f != nil {
		e.Kind, e.Bytes, e.Identity = string(f.Kind), f.Bytes, string(f.Identity)
	}
	if s.Record != nil {
		e.Generation = s.Record.Generation
	} else if len(s.Predecessors) > 0 {
		e.Generation = s.Predecessors[0].Generation
	}
	if v := s.Volume; v != nil {
		e.Volume, e.Mode, e.Generation = v.Name, string(v.Mode), v.Generation
		if e.Bytes == 0 || s.Fact.SharesSpace() {
			e.Bytes = v.Bytes
		}
	}
	e.Link, e.Filesystem = describeLink(s)
	if d.Problem != nil {
		e.Reason, e.Message = string(d.Problem.Reason), d.Problem.Message
		if acknowledgeable(s, d.Problem.Reason) {
			e.Acknowledgement = s.Acknowledgement()
		}
	}
	return e
}

// describeLink returns the state of the link by which kubelet finds a volume's device, and the
// file system that is recorded; empty for volumes of other kinds.
func describeLink(s *decide.Slot) (link, filesystem string) {
	if v := s.Volume; v != nil {
		switch {
		case v.Link == "" && s.Fact != nil && s.Fact.Kind == disk.Device:
			link = stowage.LinkUnprotected
		case v.Link != "" && s.Link == "":
			link = stowage.LinkWithheld
		case v.Link != "":
			link = stowage.LinkPresent
		}
	}
	if r := s.VolumeRecord; link != "" && r != nil && r.Filesystem != nil && r.Filesystem.Type != "" {
		filesystem = r.Filesystem.String()
	}
	return link, filesystem
}

// acknowledgeable reports whether an administrator can acknowledge the data of a disk that is
// not published for a reason.
func acknowledgeable(s *decide.Slot, reason disk.Reason) bool {
	switch reason {
	case disk.NotEmpty:
		return s.Volume == nil
	case disk.IdentityUnproven:
		return len(s.Predecessors) > 0
	case disk.RetainedDirty, disk.OtherCluster, disk.VolumeVanished, disk.OrphanGracePeriod, disk.OrphanCleanWaits:
		return true
	default:
		return false
	}
}
