// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	agentSubsystem = "provisioner"
	// referenceSubsystem is that of the provisioner whose dashboards and alerts shall
	// go on working.
	referenceSubsystem = "local_volume_provisioner"
)

var (
	volumesPublished = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: referenceSubsystem, Name: "persistentvolume_discovery_total",
		Help:           "PersistentVolumes created, by volume mode (Filesystem, Block).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"mode"})
	publishDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: referenceSubsystem, Name: "persistentvolume_discovery_duration_seconds",
		Help:           "Time from the decision to publish a disk until its PersistentVolume is created, by volume mode (Filesystem, Block).",
		Buckets:        metrics.ExponentialBuckets(0.005, 2, 14),
		StabilityLevel: metrics.ALPHA,
	}, []string{"mode"})
	scanDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: agentSubsystem, Name: "scan_duration_seconds",
		Help:           "Time one look at the discovery directories of all classes takes.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 16),
		StabilityLevel: metrics.ALPHA,
	})
	lastScan = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: agentSubsystem, Name: "last_scan_timestamp_seconds",
		Help:           "When the last look at the discovery directories ended, in seconds since 1970; 0 before the first.",
		StabilityLevel: metrics.ALPHA,
	})
	configReloads = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: agentSubsystem, Name: "config_reload_total",
		Help:           "Configurations read, the first one included, by result: success, or error (the last good one stays in force).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	lastGoodConfig = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: agentSubsystem, Name: "config_last_good_timestamp_seconds",
		Help:           "When the configuration in force was read, in seconds since 1970; 0 before the first.",
		StabilityLevel: metrics.ALPHA,
	})
	diskToAvailable = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: agentSubsystem, Name: "disk_to_available_seconds",
		Help:           "Time from the first sight of a disk until its first volume is Available.",
		Buckets:        metrics.ExponentialBuckets(0.01, 3, 12),
		StabilityLevel: metrics.ALPHA,
	})
	releasedToAvailable = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: agentSubsystem, Name: "released_to_available_seconds",
		Help:           "Time from the release of a volume until its disk is clean and its next volume is Available.",
		Buckets:        metrics.ExponentialBuckets(0.1, 3, 14),
		StabilityLevel: metrics.ALPHA,
	})

	registerAgent sync.Once
)

// RegisterProvisioner makes the metrics of stowage-provisioner known to the
// registry of the process. It may be called any number of times.
func RegisterProvisioner() {
	registerAgent.Do(func() {
		legacyregistry.MustRegister(agentMetrics()...)
		legacyregistry.CustomMustRegister(disks)
	})
}

func agentMetrics() []metrics.Registerable {
	return append(cleanMetrics(),
		volumesPublished, publishDuration, scanDuration, lastScan, configReloads, lastGoodConfig,
		diskToAvailable, releasedToAvailable, apiRequests, apiRequestsFailed, apiRequestDuration)
}

// VolumeMode is the volumeMode of a PersistentVolume.
type VolumeMode string

// The volume modes.
const (
	ModeFilesystem VolumeMode = "Filesystem"
	ModeBlock      VolumeMode = "Block"
)

// ObservePublish records that a volume was created, and how long that took.
func ObservePublish(mode VolumeMode, took time.Duration) {
	volumesPublished.WithLabelValues(label(mode)).Inc()
	publishDuration.WithLabelValues(label(mode)).Observe(took.Seconds())
}

// ObserveScan records that a look at the discovery directories ended, and how
// long it took.
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

// ObserveDiskAvailable records how long a disk was known when its first volume
// became Available.
func ObserveDiskAvailable(took time.Duration) { diskToAvailable.Observe(took.Seconds()) }

// ObserveReleasedAvailable records how long a disk was of no use between the
// release of one volume and the next one's becoming Available.
func ObserveReleasedAvailable(took time.Duration) { releasedToAvailable.Observe(took.Seconds()) }

func timestamp(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// label makes any text a label value; Prometheus panics on what is not UTF-8.
func label[T ~string](value T) string { return strings.ToValidUTF8(string(value), "\uFFFD") }
