// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
)

// DiskState is a state of the node's report ("Available").
type DiskState string

// DiskSkipped is the state of entries that are not published. Disks in other states have, had
// or get a volume.
const DiskSkipped DiskState = "Skipped"

// SkipReason is why a disk is not published, a reason of the node's report ("NotEmpty").
type SkipReason string

// Disk has the counted fields of an entry of the node's report.
type Disk struct {
	Class string
	Mode  VolumeMode
	State DiskState
	// Reason is why a disk is skipped or kept with its data; ignored in other states.
	Reason SkipReason
	// Bytes is the capacity of the volume, or the size of a disk without one.
	Bytes int64
	// Published: the disk has a volume.
	Published bool
}

// kept reports whether the disk holds the data of a deleted volume.
func (d *Disk) kept() bool {
	switch d.Reason {
	case "OtherCluster", "VolumeVanished", "OrphanGracePeriod", "OrphanCleanWaits", "RetainedDirty":
		return !d.Published
	default:
		return false
	}
}

var (
	volumeCount = provisioner.desc("volumes", "Disks that have, had or get a volume, by storage class and state (Pending, Available, Bound, Released, Cleaning, Missing, Replaced, Unproven, Failing, Retained, Failed).", "class", "state")
	volumeBytes = provisioner.desc("volume_bytes", "Capacity of the volumes, and size of the disks without one, by storage class and state as in stowage_provisioner_volumes.", "class", "state")
	skipped     = provisioner.desc("skipped", "Entries of the discovery directories that are not published, by storage class and reason (see the node's LocalDiskReport).", "class", "reason")
	// In the reference this counts only what the last scan created.
	capacityBytes = reference.desc("persistentvolume_capacity_bytes", "Capacity of all PersistentVolumes of the node, whatever their phase, by volume mode (Filesystem, Block).", "mode")
)

// disks collects the disks last set.
var disks = &diskCollector{}

type diskCollector struct {
	metrics.BaseStableCollector

	mu  sync.Mutex
	sum diskSums
}

// diskSums is not written to after SetDisks.
type diskSums struct {
	volumes, bytes map[[2]string]float64 // by class and state
	skipped        map[[2]string]float64 // by class and reason
	capacity       map[VolumeMode]float64
}

// SetDisks replaces the disks that were set before: a class or state without disks is no
// longer served. It does not retain the slice.
func SetDisks(all []Disk) {
	sum := sumDisks(all)
	disks.mu.Lock()
	defer disks.mu.Unlock()
	disks.sum = sum
}

func sumDisks(all []Disk) diskSums {
	sum := diskSums{
		volumes: map[[2]string]float64{}, bytes: map[[2]string]float64{}, skipped: map[[2]string]float64{},
		// Totals that alerts divide by exist from the start.
		capacity: map[VolumeMode]float64{ModeFilesystem: 0, ModeBlock: 0},
	}
	for _, d := range all {
		if d.Published {
			sum.capacity[VolumeMode(label(d.Mode))] += float64(d.Bytes)
		}
		if d.State == DiskSkipped || d.kept() {
			sum.skipped[[2]string{label(d.Class), label(d.Reason)}]++
		}
		if d.State == DiskSkipped {
			continue
		}
		key := [2]string{label(d.Class), label(d.State)}
		sum.volumes[key]++
		sum.bytes[key] += float64(d.Bytes)
	}
	return sum
}

// DescribeWithStability implements metrics.StableCollector.
func (*diskCollector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{volumeCount, volumeBytes, skipped, capacityBytes} {
		ch <- desc
	}
}

// CollectWithStability reports the sums over the disks last set.
func (c *diskCollector) CollectWithStability(ch chan<- metrics.Metric) {
	c.mu.Lock()
	sum := c.sum
	c.mu.Unlock()
	gauges := func(desc *metrics.Desc, values map[[2]string]float64) {
		for labels, value := range values {
			ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, value, labels[:]...)
		}
	}
	gauges(volumeCount, sum.volumes)
	gauges(volumeBytes, sum.bytes)
	gauges(skipped, sum.skipped)
	for mode, value := range sum.capacity {
		ch <- metrics.NewLazyConstMetric(capacityBytes, metrics.GaugeValue, value, string(mode))
	}
}
