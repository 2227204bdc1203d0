// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localdisks joins the LocalDiskReports and tombstones of nodes with PersistentVolumes.
package localdisks

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// Disk is an entry of a report.
type Disk struct {
	Node string
	*stowage.Entry
	// Job is the controller's answer to the entry's request for a cleaning Job; nil if there is none.
	Job *stowage.CleaningJob
}

// Trouble reports whether the disk is one that the report counts as failing or in trouble.
func (d Disk) Trouble() bool {
	s := stowage.Summarize([]stowage.Entry{*d.Entry})
	return s.Failing+s.Trouble > 0
}

// Degraded reports whether the disk shows signs of failure, and is still offered or used.
func (d Disk) Degraded() bool {
	switch disk.Reason(d.Reason) {
	case disk.DiskErrors, disk.DriveWarning, disk.Hung:
		return d.State == stowage.EntryAvailable || d.State == stowage.EntryBound
	default:
		return false
	}
}

// Tombstone is a disk of a node that may hold data, and has no volume.
type Tombstone struct {
	Node string
	*stowage.Tombstone
}

// Reports are the reports of all nodes, which are shared with the snapshot: do not change them.
type Reports struct {
	// Nodes has the first page of each node's report.
	Nodes map[string]*stowage.LocalDiskReport
	// Disks are the entries of all pages, in no order.
	Disks []Disk
	// Tombstones are those that the nodes remember, and the controller's, in no order.
	Tombstones []Tombstone

	volumes map[string]int // index in Disks by the name of the volume
}

// Read indexes the reports of a snapshot. It takes time proportional to the number of entries.
func Read(s *snapshot.Snapshot) *Reports {
	r := &Reports{Nodes: map[string]*stowage.LocalDiskReport{}, volumes: map[string]int{}}
	reports := snapshot.Of[*stowage.LocalDiskReport](s)
	for _, report := range reports {
		if report.Spec.Page == 1 {
			r.Nodes[report.Spec.NodeName] = report
		}
		for i := range report.Status.Tombstones {
			r.Tombstones = append(r.Tombstones, Tombstone{report.Spec.NodeName, &report.Status.Tombstones[i]})
		}
	}
	for _, t := range snapshot.Of[*stowage.LocalDiskTombstone](s) {
		r.Tombstones = append(r.Tombstones, Tombstone{t.Spec.NodeName, &t.Spec.Tombstone})
	}
	for _, report := range reports {
		for i := range report.Status.Entries {
			entry := &report.Status.Entries[i]
			disk := Disk{Node: report.Spec.NodeName, Entry: entry, Job: job(r.Nodes[report.Spec.NodeName], entry)}
			if entry.Volume != "" {
				r.volumes[entry.Volume] = len(r.Disks)
			}
			r.Disks = append(r.Disks, disk)
		}
	}
	return r
}

// job finds the answer to the request of an entry.
func job(first *stowage.LocalDiskReport, entry *stowage.Entry) *stowage.CleaningJob {
	if first == nil || entry.Cleaning == nil || entry.Cleaning.Request == nil {
		return nil
	}
	for i := range first.Status.Jobs {
		if j := &first.Status.Jobs[i]; j.Path == entry.Path && j.Attempt == entry.Cleaning.Request.Attempt {
			return j
		}
	}
	return nil
}

// OfVolume returns the disk of a volume.
func (r *Reports) OfVolume(name string) (disk Disk, found bool) {
	i, found := r.volumes[name]
	if !found {
		return Disk{}, false
	}
	return r.Disks[i], true
}

// Use is how the capacity of a volume is used.
type Use string

// The uses. Each volume has one.
const (
	Free     Use = "Free"     // a claim can take it
	Reserved Use = "Reserved" // has a claimRef, and is not bound yet
	Bound    Use = "Bound"
	Cleaning Use = "Cleaning" // is released, and will be free or gone
	Other    Use = "Other"    // none of these: retained, failed, on a disk in trouble, or not yet observed by the PV controller
)

// UseOf returns the use of a volume.
func UseOf(pv *corev1.PersistentVolume) Use {
	phase := pv.Status.Phase
	switch {
	case phase == corev1.VolumeBound:
		return Bound
	case pv.DeletionTimestamp != nil && Managed(pv):
		return Cleaning
	case phase == corev1.VolumeReleased && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return Cleaning
	case phase == corev1.VolumeReleased, phase == corev1.VolumeFailed, pv.DeletionTimestamp != nil:
		return Other
	case pv.Spec.ClaimRef != nil:
		return Reserved
	case match.Free(pv):
		return Free
	}
	return Other
}

// Managed reports whether a volume has the finalizer of the local provisioner.
func Managed(pv *corev1.PersistentVolume) bool {
	return slices.Contains(pv.Finalizers, wellknown.LocalVolumeFinalizer)
}
