// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"time"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/metrics"
)

// observeAvailable measures, once, how long it took until a volume was free: from when
// its disk was first seen, or from when the volume before it lost its claim.
func (e *entry) observeAvailable() {
	now := time.Now()
	switch {
	case !e.freed.IsZero():
		metrics.ObserveReleasedAvailable(now.Sub(e.freed))
	case !e.appeared.IsZero():
		metrics.ObserveDiskAvailable(now.Sub(e.appeared))
	}
	e.freed, e.appeared = time.Time{}, time.Time{}
}

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

// measure brings the totals up to date.
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

// bytes is the capacity of an entry's volume, or the size of a disk that has none.
func (r *statusReporter) bytes(e *stowage.Entry) int64 {
	if volume := r.provisioner.volumes.get(e.Volume); volume != nil { // which offers less than the disk has
		return volume.Spec.Capacity.Storage().Value()
	}
	return e.Bytes
}

// disksReleasing are the volumes whose disks are clean and that are not gone yet.
func disksReleasing(disks []metrics.Disk) int {
	n := 0
	for _, d := range disks {
		if d.Published && d.State == metrics.DiskState(stowage.EntryCleaning) {
			n++
		}
	}
	return n
}

// count is for the metrics. published are the volumes that are being reclaimed.
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
