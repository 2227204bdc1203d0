// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"time"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/metrics"
)

func observeClean(job *clean, mode metrics.VolumeMode, failed bool) {
	by := metrics.InProcess
	if job.byJob {
		by = metrics.InJob
	}
	c := metrics.Clean{Mode: mode, By: by, Bytes: job.Fact.Bytes, Command: job.command, Took: time.Since(job.begun), Failed: failed}
	if v := job.Volume; v != nil {
		c.Bytes = v.Bytes
	}
	metrics.ObserveClean(c)
}

// measure updates the gauges.
func (r *statusReporter) measure() {
	var disks []metrics.Disk
	for _, e := range r.all() {
		mode := metrics.VolumeMode(e.Mode)
		if mode == "" {
			mode = metrics.ModeFilesystem
		}
		disks = append(disks, metrics.Disk{
			Class: e.Class, Mode: mode, State: metrics.DiskState(e.State), Reason: metrics.SkipReason(e.Reason), Bytes: r.bytes(&e), Published: e.Volume != "",
		})
	}
	metrics.SetDisks(disks)
	metrics.SetCleans(r.provisioner.cleans.count(disksReleasing(disks)))
	metrics.SetBlankProofs(r.provisioner.proofs.count())
}

// bytes returns the capacity of an entry's volume, or the size of a disk without one.
func (r *statusReporter) bytes(e *stowage.Entry) int64 {
	if volume := r.provisioner.volumes.get(e.Volume); volume != nil { // offers less than the size of the disk
		return volume.Spec.Capacity.Storage().Value()
	}
	return e.Bytes
}

// disksReleasing counts the volumes whose disks are being reclaimed.
func disksReleasing(disks []metrics.Disk) int {
	n := 0
	for _, d := range disks {
		if d.Published && d.State == metrics.DiskState(stowage.EntryCleaning) {
			n++
		}
	}
	return n
}

// count returns the totals for the metrics. published counts volumes that are being reclaimed.
func (c *cleans) count(published int) metrics.Cleans {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := metrics.Cleans{Queued: len(c.waiting), Running: c.running}
	for path := range c.failed {
		if c.byPath[path] == nil {
			n.Failed++
		}
	}
	n.Succeeded = max(published-n.Queued-n.Running-n.Failed, 0)
	return n
}
