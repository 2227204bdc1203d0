// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/metrics"
)

// pages returns the report as it should be.
func (r *Reporter) pages() []stowage.LocalDiskReportStatus {
	entries := r.Entries()
	lists, truncated := stowage.Pages(entries)
	pages := make([]stowage.LocalDiskReportStatus, len(lists))
	for i := range lists {
		pages[i].Entries = lists[i]
	}
	summary := r.summarize(entries)
	first := &pages[0]
	first.Summary, first.Truncated, first.Conditions = &summary, truncated, r.conditions(entries)
	first.Classes, first.Tombstones = r.classes(), r.tombstones()
	return pages
}

// summarize counts entries, and adds up what their volumes offer.
func (r *Reporter) summarize(entries []stowage.Entry) stowage.Summary {
	summary := stowage.Summarize(entries)
	summary.Capacity, summary.Free = *resource.NewQuantity(0, resource.BinarySI), *resource.NewQuantity(0, resource.BinarySI)
	for i := range entries {
		e := &entries[i]
		if e.Volume == "" {
			continue
		}
		offered := *resource.NewQuantity(r.bytes(e), resource.BinarySI)
		summary.Capacity.Add(offered)
		if e.State == stowage.EntryAvailable {
			summary.Free.Add(offered)
		}
	}
	return summary
}

// conditions describe the provisioner as a whole. They have no times and no generation.
func (r *Reporter) conditions(entries []stowage.Entry) []metav1.Condition {
	ready := metav1.Condition{Type: stowage.ConditionReady, Status: metav1.ConditionTrue, Reason: "DirectoriesRead"}
	if err := r.Provisioner.CheckReads(""); err != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "DirectoriesNotRead", stowage.FitMessage(err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return []metav1.Condition{ready, disksHealthy(entries), r.config}
}

// configValid is the condition of a valid configuration.
var configValid = metav1.Condition{Type: stowage.ConditionConfigValid, Status: metav1.ConditionTrue, Reason: "Valid"}

// ConfigRejected reports why a configuration is not valid; nil reports that the last one is.
func (r *Reporter) ConfigRejected(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := configValid
	if err != nil {
		next.Status, next.Reason, next.Message = metav1.ConditionFalse, eventConfig, stowage.FitMessage(err.Error())
	}
	if next.Status == r.config.Status && next.Message == r.config.Message {
		return
	}
	r.config = next
	if err != nil {
		r.warn(r.nodeReference(), eventConfig, "The last good configuration stays in force: "+next.Message)
	}
	r.Changed()
}

// disksHealthy is the condition of all disks.
func disksHealthy(entries []stowage.Entry) metav1.Condition {
	c := metav1.Condition{Type: stowage.ConditionDisksHealthy, Status: metav1.ConditionTrue, Reason: "NoTrouble"}
	troubled := map[string]int{}
	for i := range entries {
		switch e := &entries[i]; {
		case e.State == stowage.EntryMissing, e.State == stowage.EntryReplaced, e.State == stowage.EntryUnproven, e.State == stowage.EntryFailing:
			troubled[string(e.State)]++
		case e.Reason == string(disk.TimedOut), e.Reason == string(disk.IOError), e.Reason == string(disk.FilesystemError), e.Reason == string(disk.DeviceReadOnly):
			troubled[e.Reason]++
		}
	}
	if len(troubled) == 0 {
		return c
	}
	var counts []string
	for _, trouble := range slices.Sorted(maps.Keys(troubled)) {
		counts = append(counts, fmt.Sprintf("%s: %d", trouble, troubled[trouble]))
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, "DisksInTrouble", strings.Join(counts, ", ")
	return c
}

// Entries returns the entries, sorted by path, with the progress of cleans and blank proofs.
func (r *Reporter) Entries() []stowage.Entry {
	entries := r.Paths.Entries()
	var all []stowage.Entry
	for _, path := range slices.Sorted(maps.Keys(entries)) {
		e := entries[path].Entry
		e.Cleaning, e.BlankProof = r.cleans.Describe(path), r.proofs.Describe(path)
		all = append(all, e)
	}
	return all
}

// classes are the states of the configured classes.
func (r *Reporter) classes() []stowage.ClassStatus {
	settings := r.Settings()
	var all []stowage.ClassStatus
	for _, name := range slices.Sorted(maps.Keys(settings.Classes)) {
		read, problem := r.Paths.Directory(name)
		status := stowage.ClassStatus{Name: name, HostDir: settings.Classes[name].HostDir, Ready: read}
		if problem != nil {
			status.Reason, status.Message = string(problem.Reason), problem.Message
		} else if _, err := r.Classes.Get(name); err != nil {
			status.Ready, status.Reason, status.Message = false, string(disk.ClassMissing), fmt.Sprintf("there is no StorageClass %q", name)
		}
		all = append(all, status)
	}
	return stowage.Classes(all)
}

// tombstones are the disks that are dirty and have no volume. A record of another cluster is
// retained, and never has a volume here: one of the same name is another volume.
func (r *Reporter) tombstones() []stowage.Tombstone {
	var all []stowage.Tombstone
	for _, record := range r.Records.All() {
		switch {
		case !record.State.Dirty():
			continue
		case record.Cluster != r.Cluster():
			record.State = disk.Retained
		case record.Volume != "" && r.Volume(record.Volume) != nil:
			continue
		}
		all = append(all, stowage.Tombstone{
			Identity: string(record.Identity), Class: record.Key.Class, Name: record.Key.Name, Volume: record.Volume, VolumeUID: record.UID,
			Generation: record.Generation, State: stowage.TombstoneState(record.State), Since: &metav1.Time{Time: record.Updated},
		})
	}
	return stowage.Tombstones(all)
}

// measure updates the gauges.
func (r *Reporter) measure() {
	var disks []metrics.Disk
	reclaimed := 0 // volumes whose disks are being cleaned
	for _, e := range r.Entries() {
		mode := metrics.VolumeMode(e.Mode)
		if mode == "" {
			mode = metrics.ModeFilesystem
		}
		if e.Volume != "" && e.State == stowage.EntryCleaning {
			reclaimed++
		}
		disks = append(disks, metrics.Disk{
			Class: e.Class, Mode: mode, State: metrics.DiskState(e.State), Reason: metrics.SkipReason(e.Reason), Bytes: r.bytes(&e), Published: e.Volume != "",
		})
	}
	metrics.SetDisks(disks)
	metrics.SetCleans(r.cleans.Count(reclaimed))
	metrics.SetBlankProofs(r.proofs.Count())
}

// bytes returns the capacity of an entry's volume, or the size of a disk without one.
func (r *Reporter) bytes(e *stowage.Entry) int64 {
	if volume := r.Volume(e.Volume); volume != nil { // offers less than the size of the disk
		return volume.Spec.Capacity.Storage().Value()
	}
	return e.Bytes
}
