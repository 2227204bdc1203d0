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
	provisionerSubsystem = "provisioner"
	// referenceSubsystem is that of sig-storage-local-static-provisioner, whose dashboards and
	// alerts keep working.
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
		Namespace: namespace, Subsystem: provisionerSubsystem, Name: "scan_duration_seconds",
		Help:           "Time of one scan of the discovery directories of all classes.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 16),
		StabilityLevel: metrics.ALPHA,
	})
	lastScan = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: provisionerSubsystem, Name: "last_scan_timestamp_seconds",
		Help:           "When the last scan of the discovery directories ended, in seconds since 1970; 0 before the first.",
		StabilityLevel: metrics.ALPHA,
	})
	configReloads = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: provisionerSubsystem, Name: "config_reloads_total",
		Help:           "Configurations read, the first one included, by result: success, or error (the last valid one stays in force).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	lastGoodConfig = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: provisionerSubsystem, Name: "config_last_good_timestamp_seconds",
		Help:           "When the configuration in force was read, in seconds since 1970; 0 before the first.",
		StabilityLevel: metrics.ALPHA,
	})
	diskToAvailable = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: provisionerSubsystem, Name: "disk_to_available_seconds",
		Help:           "Time from the discovery of a disk until its first volume is Available.",
		Buckets:        metrics.ExponentialBuckets(0.01, 3, 12),
		StabilityLevel: metrics.ALPHA,
	})
	releasedToAvailable = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: provisionerSubsystem, Name: "released_to_available_seconds",
		Help:           "Time from the release of a volume until its disk is clean and its next volume is Available.",
		Buckets:        metrics.ExponentialBuckets(0.1, 3, 14),
		StabilityLevel: metrics.ALPHA,
	})

	registerProvisioner sync.Once
)

// RegisterProvisioner registers the metrics of stowage-provisioner. It may be called any
// number of times.
func RegisterProvisioner() {
	registerProvisioner.Do(func() {
		legacyregistry.MustRegister(provisionerMetrics()...)
		legacyregistry.CustomMustRegister(disks)
	})
}

func provisionerMetrics() []metrics.Registerable {
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

// ObserveDiskAvailable records the time from the discovery of a disk until its first volume is
// Available.
func ObserveDiskAvailable(took time.Duration) { diskToAvailable.Observe(took.Seconds()) }

// ObserveReleasedAvailable records the time from the release of a volume until the next volume
// of its disk is Available.
func ObserveReleasedAvailable(took time.Duration) { releasedToAvailable.Observe(took.Seconds()) }

func timestamp(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// label makes any text a label value: Prometheus panics on text that is not UTF-8.
func label[T ~string](value T) string { return strings.ToValidUTF8(string(value), "\uFFFD") }
