// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/component-base/metrics"
)

var (
	cleansDone = reference.counterVec("persistentvolume_delete_total",
		"Released volumes whose disk was cleaned, by volume mode and by where the disk was cleaned (process, job).",
		"mode", "type")
	cleansFailed = reference.counterVec("persistentvolume_delete_failed_total",
		"Attempts to clean the disk of a released volume that failed, by volume mode and by where the disk was cleaned (process, job).",
		"mode", "type")
	cleanDuration = reference.histogramVec("persistentvolume_delete_duration_seconds",
		"Time to clean the disk of a released volume, by volume mode, by where it was cleaned (process, job), by capacity (rounded up to a multiple of 500G, which are GiB) and by cleaner command.",
		metrics.ExponentialBuckets(0.01, 3, 15), "mode", "type", "capacity", "cleanup_command")
	tableRunning   = reference.gauge("proctable_running", "Disks that are being cleaned.")
	tableSucceeded = reference.gauge("proctable_succeeded", "Disks that were cleaned and whose volume still exists.")
	tableFailed    = reference.gauge("proctable_failed", "Disks whose last clean failed; they wait for the next attempt.")
	cleansRunning  = provisioner.gauge("clean_in_progress", "Disks that are being cleaned, as proctable_running.")
	proofsRunning  = provisioner.gauge("blank_proof_in_progress", "Devices that are being read from end to end to prove that they are blank.")
	proofsQueued   = provisioner.gauge("blank_proof_queue", "Devices that wait to be read to prove that they are blank.")
	proofBytes     = provisioner.counter("blank_proof_bytes_total",
		"Bytes that were read to prove that devices are blank.")
	cleansQueued = provisioner.gauge("clean_queue", "Disks that wait to be cleaned, in the queue or for a volume that is in use; failed ones are not counted.")
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

// CountBlankProofBytes counts bytes that were read to prove that a device is blank.
func CountBlankProofBytes(n int64) { proofBytes.Add(float64(max(n, 0))) }
