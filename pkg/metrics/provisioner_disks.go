// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
)

// DiskState is a state of the node's report ("Available").
type DiskState string

// DiskSkipped is the state of what is not published; the others have or are to
// have a volume.
const DiskSkipped DiskState = "Skipped"

// SkipReason is why something is not published, a reason of the node's report
// ("NotEmpty").
type SkipReason string

// Disk is an entry of the node's report, as far as it is counted.
type Disk struct {
	Class string
	Mode  VolumeMode
	State DiskState
	// Reason is why a disk is skipped or kept with its data; not looked at in other states.
	Reason SkipReason
	// Bytes is the capacity of the volume, or the size of a disk that has none.
	Bytes int64
	// Published says that there is a volume.
	Published bool
}

// kept says whether the disk holds the data of a volume that is gone.
func (d *Disk) kept() bool {
	switch d.Reason {
	case "OtherCluster", "VolumeVanished", "OrphanGracePeriod", "OrphanCleanWaits", "RetainedDirty":
		return !d.Published
	default:
		return false
	}
}

var (
	volumeCount = agentDesc("volumes", "Disks that have a volume, are to have one or had one, by storage class and state (Pending, Available, Bound, Released, Cleaning, Missing, Replaced, Unproven, Failing, Retained, Failed).", "class", "state")
	volumeBytes = agentDesc("volume_bytes", "Capacity of the volumes, and size of the disks that have none, by storage class and state as in stowage_provisioner_volumes.", "class", "state")
	skipped     = agentDesc("skipped", "Entries of the discovery directories that are not published, by storage class and reason (see the node's LocalDiskReport).", "class", "reason")
	// In the reference this counts what the last scan created, which is next to
	// nothing.
	capacityBytes = metrics.NewDesc(metrics.BuildFQName("", referenceSubsystem, "persistentvolume_capacity_bytes"),
		"Capacity of all PersistentVolumes of the node, whatever their phase, by volume mode (Filesystem, Block).",
		[]string{"mode"}, nil, metrics.ALPHA, "")
)

func agentDesc(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc(metrics.BuildFQName(namespace, agentSubsystem, name), help, labels, nil, metrics.ALPHA, "")
}

// disks is the collector of the disks last set.
var disks = &diskCollector{}

type diskCollector struct {
	metrics.BaseStableCollector

	mu  sync.Mutex
	sum diskSums
}

// diskSums is never written to once it is the collector's.
type diskSums struct {
	volumes, bytes map[[2]string]float64 // by class and state
	skipped        map[[2]string]float64 // by class and reason
	capacity       map[VolumeMode]float64
}

// SetDisks replaces the disks that were set before: a class or state that none is
// in any more is not served any more. It keeps nothing of the slice.
func SetDisks(all []Disk) {
	sum := sumDisks(all)
	disks.mu.Lock()
	defer disks.mu.Unlock()
	disks.sum = sum
}

func sumDisks(all []Disk) diskSums {
	sum := diskSums{
		volumes: map[[2]string]float64{}, bytes: map[[2]string]float64{}, skipped: map[[2]string]float64{},
		// Totals that alerts divide by are there from the start.
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

// DescribeWithStability names the metrics.
func (*diskCollector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{volumeCount, volumeBytes, skipped, capacityBytes} {
		ch <- desc
	}
}

// CollectWithStability gives the sums over the disks last set.
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
