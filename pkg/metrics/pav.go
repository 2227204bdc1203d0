// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Outcomes of helper pods.
const (
	PavSucceeded   = "succeeded"
	PavFailed      = "failed"
	PavInterrupted = "interrupted"
	PavRefused     = "refused"
)

var (
	pavProvisioners = controller.gaugeVec("pav_provisioners",
		"PavProvisioners, by state: Pending (not validated yet), Accepted, Deleting, or the reason of the condition Accepted (InvalidSpec, CSIDriverNotOwned, RevisionNotOwned); absent on a standby replica.",
		"state")
	pavVolumes = controller.gaugeVec("pav_volumes",
		"PavVolumes, by phase; absent on a standby replica.",
		"phase")
	pavStagings = controller.gaugeVec("pav_stagings",
		"PavStagings, by phase; absent on a standby replica.",
		"phase")
	pavFailing = controller.gaugeVec("pav_failing",
		"PavVolumes (create, delete) and PavStagings (stage, unstage) whose last attempt failed or that wait for something, until they succeed, by operation and reason; absent on a standby replica.",
		"operation", "reason")
	pavNodesWithoutCapacity = controller.gauge("pav_nodes_without_capacity",
		"Nodes for which storageCapacity of a PavProvisioner fails, counted for each provisioner; 0 on a standby replica.")
	pavSteps = controller.histogramVec("pav_step_duration_seconds",
		"Time from the announcement of a helper pod until its result is known, or a staging pod is ready, by step and outcome: succeeded, failed, interrupted (by a timeout, its deletion, or because it is not needed any more), refused (by the API server).",
		metrics.ExponentialBuckets(0.5, 2, 12), "step", "outcome")
	pavProvisioning = controller.histogram("pav_provisioning_duration_seconds",
		"Time from the creation of a PavVolume, which is when its claim can be served, until its PersistentVolume exists. The start is known to the second.",
		metrics.ExponentialBuckets(0.5, 2, 14))
)

// AddPavProvisioners changes the number of PavProvisioners in a state.
func AddPavProvisioners(state string, more float64) {
	pavProvisioners.WithLabelValues(wordOr(state, "Other")).Add(more)
}

// AddPavVolumes changes the number of PavVolumes in a phase.
func AddPavVolumes(phase string, more float64) { pavVolumes.WithLabelValues(phase).Add(more) }

// AddPavStagings changes the number of PavStagings in a phase.
func AddPavStagings(phase string, more float64) { pavStagings.WithLabelValues(phase).Add(more) }

// AddPavFailing changes the number of PavVolumes or PavStagings that fail for a reason.
func AddPavFailing(operation, reason string, more float64) {
	pavFailing.WithLabelValues(operation, wordOr(reason, "Other")).Add(more)
}

// SetPavNodesWithoutCapacity records for how many nodes storageCapacity fails.
func SetPavNodesWithoutCapacity(n int) { pavNodesWithoutCapacity.Set(float64(n)) }

// ResetPav sets what is counted of PavProvisioners to 0.
func ResetPav() {
	for _, of := range []*metrics.GaugeVec{pavProvisioners, pavVolumes, pavStagings, pavFailing} {
		of.Reset()
	}
	pavNodesWithoutCapacity.Set(0)
}

// ObservePavStep records the outcome of a helper pod.
func ObservePavStep(step, outcome string, took time.Duration) {
	pavSteps.WithLabelValues(step, outcome).Observe(took.Seconds())
}

// ObservePavProvisioning records that the PersistentVolume of a PavVolume was created.
func ObservePavProvisioning(took time.Duration) { pavProvisioning.Observe(took.Seconds()) }

var (
	csiCalls = csi.histogramVec("call_duration_seconds",
		"Time to answer a call of kubelet, by method of the CSI services and gRPC code. Calls that wait for a helper pod end with Aborted after 110 s at most, and kubelet repeats them.",
		metrics.ExponentialBuckets(0.001, 2, 18), "method", "code")
	csiStagings = csi.gauge("stagings",
		"PavStagings of the node.")
	csiDrivers = csi.gauge("drivers",
		"Drivers that are served: one for each PavProvisioner, and those of which the node still has volumes.")
	csiRegistrations = csi.counterVec("registrations_total",
		"Answers of kubelet to the registration of a driver, by outcome: registered, refused.",
		"outcome")
)

// RegisterCSI registers the metrics of stowage-csi. It may be called any number of times.
func RegisterCSI() { csi.register() }

// ObserveCSICall records the answer to a call of kubelet.
func ObserveCSICall(method, code string, took time.Duration) {
	csiCalls.WithLabelValues(method, code).Observe(took.Seconds())
}

// AddCSIStagings changes the number of PavStagings of the node.
func AddCSIStagings(more float64) { csiStagings.Add(more) }

// SetCSIDrivers records the number of drivers that are served.
func SetCSIDrivers(n int) { csiDrivers.Set(float64(n)) }

// CountCSIRegistration counts an answer of kubelet to the registration of a driver.
func CountCSIRegistration(registered bool) {
	outcome := "refused"
	if registered {
		outcome = "registered"
	}
	csiRegistrations.WithLabelValues(outcome).Inc()
}
