// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"k8s.io/component-base/metrics"
)

var (
	volumesPublished = reference.counterVec("persistentvolume_discovery_total",
		"PersistentVolumes created, by volume mode (Filesystem, Block).",
		"mode")
	publishDuration = reference.histogramVec("persistentvolume_discovery_duration_seconds",
		"Time from the decision to publish a disk until its PersistentVolume is created, by volume mode (Filesystem, Block).",
		metrics.ExponentialBuckets(0.005, 2, 14), "mode")
	scanDuration = provisioner.histogram("scan_duration_seconds",
		"Time of one scan of the discovery directories of all classes.",
		metrics.ExponentialBuckets(0.001, 2, 16))
	lastScan = provisioner.gauge("last_scan_timestamp_seconds",
		"When the last scan of the discovery directories ended, in seconds since 1970; 0 before the first.")
	configReloads = provisioner.counterVec("config_reloads_total",
		"Configurations read, the first one included, by result: success, or error (the last valid one stays in force).",
		"result")
	lastGoodConfig = provisioner.gauge("config_last_good_timestamp_seconds",
		"When the configuration in force was read, in seconds since 1970; 0 before the first.")
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
