// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
)

var (
	volumesPublished = reference.counterVec("persistentvolume_discovery_total",
		"PersistentVolumes created, by volume mode (Filesystem, Block).",
		"mode")
	publishDuration = reference.histogramVec("persistentvolume_discovery_duration_seconds",
		"Time from the decision to publish a disk until its PersistentVolume is created, by volume mode.",
		metrics.ExponentialBuckets(0.005, 2, 14), "mode")
	scanDuration = provisioner.histogram("scan_duration_seconds",
		"Time of one scan of the discovery directories of all classes.",
		metrics.ExponentialBuckets(0.001, 2, 16))
	lastScan = provisioner.gauge("last_scan_timestamp_seconds",
		"When the last scan of the discovery directories ended, in seconds since 1970; 0 before the first.")
	configReloads = provisioner.counterVec("config_reloads_total",
		"Configurations read, including the first one, by result: success, or error (the last valid one stays in force).",
		"result")
	lastGoodConfig = provisioner.gauge("config_last_good_timestamp_seconds",
		"When the configuration in force was read, in seconds since 1970; 0 before the first.")
	unlistedDisks = provisioner.gauge("unlisted_disks",
		"Disks of the node that are not listed as LocalDisks because it has more than 256; 0 if none are listed.")
	diskToAvailable = provisioner.histogram("disk_to_available_seconds",
		"Time from the discovery of a disk until its first volume is Available.",
		metrics.ExponentialBuckets(0.01, 3, 12))
	releasedToAvailable = provisioner.histogram("released_to_available_seconds",
		"Time from the release of a volume until its disk is clean and its next volume is Available.",
		metrics.ExponentialBuckets(0.1, 3, 14))
)

// RegisterProvisioner registers the metrics of stowage-provisioner. It may be called any
// number of times.
func RegisterProvisioner() {
	provisioner.register(disks)
	reference.register()
}

// VolumeMode is the volumeMode of a PersistentVolume.
type VolumeMode string

// The volume modes.
const (
	ModeFilesystem VolumeMode = "Filesystem"
	ModeBlock      VolumeMode = "Block"
)

// ObservePublish records that a volume was created, and the duration.
func ObservePublish(mode VolumeMode, took time.Duration) {
	volumesPublished.WithLabelValues(label(mode)).Inc()
	publishDuration.WithLabelValues(label(mode)).Observe(took.Seconds())
}

// ObserveScan records that a scan of the discovery directories ended, and its duration.
func ObserveScan(ended time.Time, took time.Duration) {
	lastScan.Set(timestamp(ended))
	scanDuration.Observe(took.Seconds())
}

// CountConfigAccepted records that a configuration was read and is in force.
func CountConfigAccepted(at time.Time) {
	configReloads.WithLabelValues("success").Inc()
	lastGoodConfig.Set(timestamp(at))
}

// CountConfigRefused records that a configuration was read and is not valid.
func CountConfigRefused() { configReloads.WithLabelValues("error").Inc() }

// SetUnlistedDisks records how many disks of the node have no LocalDisk because there are too many.
func SetUnlistedDisks(n int) { unlistedDisks.Set(float64(n)) }

// ObserveDiskAvailable records the time from the discovery of a disk until its first volume is
// Available.
func ObserveDiskAvailable(took time.Duration) { diskToAvailable.Observe(took.Seconds()) }

// ObserveReleasedAvailable records the time from the release of a volume until the next volume
// of its disk is Available.
func ObserveReleasedAvailable(took time.Duration) { releasedToAvailable.Observe(took.Seconds()) }

func timestamp(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// label makes any text a label value: Prometheus panics on text that is not UTF-8.
func label[T ~string](value T) string { return strings.ToValidUTF8(string(value), "\uFFFD") }

var (
	apiRequests = reference.counterVec("apiserver_requests_total",
		"Requests to the API server, by method (create, update, patch, delete, get; lists and watches count as get).",
		"method")
	apiRequestsFailed = reference.counterVec("apiserver_requests_failed_total",
		"Requests to the API server without a response, or with status 400 or above, by method.",
		"method")
	apiRequestDuration = reference.histogramVec("apiserver_requests_duration_seconds",
		"Time until the API server begins its response, by method.",
		metrics.ExponentialBuckets(0.005, 2, 14), "method")
)

// CountRequests wraps a transport to the API server and counts its requests; for
// rest.Config.Wrap.
func CountRequests(transport http.RoundTripper) http.RoundTripper {
	return &countingTransport{transport}
}

type countingTransport struct{ next http.RoundTripper }

var _ http.RoundTripper = (*countingTransport)(nil)

// RoundTrip implements http.RoundTripper.
func (t *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	method, begin := cmp.Or(writes[request.Method], "get"), time.Now()
	response, err := t.next.RoundTrip(request)
	apiRequests.WithLabelValues(method).Inc()
	apiRequestDuration.WithLabelValues(method).Observe(time.Since(begin).Seconds())
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		apiRequestsFailed.WithLabelValues(method).Inc()
	}
	return response, err
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// writes are the methods that are no get.
var writes = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

var (
	cleansDone = reference.counterVec("persistentvolume_delete_total",
		"Released volumes whose disk was cleaned, by volume mode and type (process, job).",
		"mode", "type")
	cleansFailed = reference.counterVec("persistentvolume_delete_failed_total",
		"Failed attempts to clean the disk of a released volume, by volume mode and type (process, job).",
		"mode", "type")
	cleanDuration = reference.histogramVec("persistentvolume_delete_duration_seconds",
		"Time to clean the disk of a released volume, by volume mode, type (process, job), capacity (rounded up to a multiple of 500G, which are GiB) and cleaner command.",
		metrics.ExponentialBuckets(0.01, 3, 15), "mode", "type", "capacity", "cleanup_command")
	tableRunning   = reference.gauge("proctable_running", "Disks that are being cleaned.")
	tableSucceeded = reference.gauge("proctable_succeeded", "Disks that were cleaned and whose volume still exists.")
	tableFailed    = reference.gauge("proctable_failed", "Disks whose last clean failed; they wait for the next attempt.")
	cleansRunning  = provisioner.gauge("clean_in_progress", "As proctable_running.")
	proofsRunning  = provisioner.gauge("blank_proof_in_progress", "Devices that are being proven to be blank.")
	proofsQueued   = provisioner.gauge("blank_proof_queue", "Devices that wait to be proven to be blank.")
	proofBytes     = provisioner.counter("blank_proof_bytes_total",
		"Bytes that were read to prove that devices are blank.")
	diskHealth = provisioner.gaugeVec("disk_health",
		"Watched disks of the node, by state (Healthy, Degraded, Failing).",
		"state")
	cleansQueued = provisioner.gauge("clean_queue", "Disks that wait to be cleaned, in the queue or for a volume that is in use; not failed ones.")
)

// CleanedBy is where a disk is cleaned.
type CleanedBy string

// The places.
const (
	InProcess CleanedBy = "process" // by the provisioner itself
	InJob     CleanedBy = "job"     // by a Job
)

// Clean is one finished attempt to clean a disk.
type Clean struct {
	Mode VolumeMode
	By   CleanedBy
	// Bytes is the volume's capacity.
	Bytes int64
	// Command is the class's method with its arguments. It must not name the volume: each value
	// is a series.
	Command []string
	Took    time.Duration
	Failed  bool
}

// ObserveClean records the outcome of an attempt to clean a disk. Only successful attempts
// are in the durations, as in the reference's metrics.
func ObserveClean(c Clean) {
	mode, by := label(c.Mode), label(c.By)
	if c.Failed {
		cleansFailed.WithLabelValues(mode, by).Inc()
		return
	}
	cleansDone.WithLabelValues(mode, by).Inc()
	cleanDuration.WithLabelValues(mode, by, capacity(c.Bytes), label(strings.Join(c.Command, " "))).Observe(c.Took.Seconds())
}

// capacity rounds up to a multiple of 500 GiB, so that the label takes few values:
// "0G", "500G", "1000G".
func capacity(bytes int64) string {
	const step = 500 << 30
	steps := max(bytes, 0) / step
	if bytes > steps*step {
		steps++
	}
	return fmt.Sprintf("%dG", steps*500)
}

// Cleans is the number of disks in each stage of cleaning; each disk is in one.
type Cleans struct {
	// Queued disks wait, Running ones are being cleaned, Failed ones wait for the next attempt,
	// and the volumes of Succeeded ones still exist.
	Queued, Running, Failed, Succeeded int
}

// SetCleans replaces the numbers set before.
func SetCleans(c Cleans) {
	tableRunning.Set(float64(c.Running))
	tableSucceeded.Set(float64(c.Succeeded))
	tableFailed.Set(float64(c.Failed))
	cleansRunning.Set(float64(c.Running))
	cleansQueued.Set(float64(c.Queued))
}

// SetBlankProofs sets how many devices are being read to prove that they are blank, and how
// many wait for that.
func SetBlankProofs(running, queued int) {
	proofsRunning.Set(float64(running))
	proofsQueued.Set(float64(queued))
}

// SetDiskHealth sets how many disks are in each state of health; nil if none is watched.
func SetDiskHealth(disks map[string]int) {
	if disks == nil {
		diskHealth.Reset()
	}
	for state, n := range disks {
		diskHealth.WithLabelValues(label(state)).Set(float64(n))
	}
}

// CountBlankProofBytes counts bytes that were read to prove that a device is blank.
func CountBlankProofBytes(n int64) { proofBytes.Add(float64(max(n, 0))) }

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
	skipped     = provisioner.desc("skipped", "Entries of the discovery directories that are not published, by storage class and reason in the node's LocalDiskReport.", "class", "reason")
	// In the reference this counts only what the last scan created.
	capacityBytes = reference.desc("persistentvolume_capacity_bytes", "Capacity of all PersistentVolumes of the node, by volume mode.", "mode")
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
