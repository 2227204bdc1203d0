// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics defines the metrics of all components, stowage_<component>_*. Labels take
// few, fixed values; names of objects never are labels. Metrics that are not registered record
// nothing, and every function of this package is cheap and safe for concurrent use.
package metrics

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	namespace = "stowage"
	subsystem = "scheduler"
)

var (
	matchingDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "matching_duration_seconds",
		Help:           "Time one Filter call takes to match the claims of a pod to the volumes and the capacity of one node; one in 16 calls is measured.",
		Buckets:        metrics.ExponentialBuckets(0.000001, 2, 16),
		StabilityLevel: metrics.ALPHA,
	})
	reserveDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "reserve_duration_seconds",
		Help:           "Time Reserve takes to choose the volumes of a pod on its node and to hold them.",
		Buckets:        metrics.ExponentialBuckets(0.000001, 2, 16),
		StabilityLevel: metrics.ALPHA,
	})
	bindDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "bind_duration_seconds",
		Help:           "Time PreBind takes to bind all claims of a pod, waiting for provisioners and the PV controller included, by binding mode and outcome (success, failure, error, timeout, canceled; provisioning: the scheduler must call the extender again).",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 20),
		StabilityLevel: metrics.ALPHA,
	}, []string{"mode", "outcome"})
	bindStageDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "bind_stage_duration_seconds",
		Help:           "Time of one step of binding the claims of a pod, by step (claim_volumes, select_node, await_volumes, bind_claims, await_bound, undo) and outcome (success, failure, error, timeout, canceled).",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 20),
		StabilityLevel: metrics.ALPHA,
	}, []string{"stage", "outcome"})
	bindConflicts = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "bind_conflicts_total",
		Help:           "Conflicts of a binding's writes with a newer version of the object, by resource and outcome: done (the newer version has the change), retried (the write was repeated on the newer version), lost (another client has taken the object).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"resource", "outcome"})
	directBindingDisabled = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "direct_binding_disabled",
		Help:           "1 if bindingMode Direct is configured but the scheduler lacks the right to update persistentvolumes/status or persistentvolumeclaims/status, so that the PV controller completes bindings; else 0.",
		StabilityLevel: metrics.ALPHA,
	})

	register sync.Once
)

// Register registers the scheduler's metrics with the registry that kube-scheduler serves
// at /metrics. It may be called any number of times.
func Register() {
	register.Do(func() {
		legacyregistry.MustRegister(
			matchingDuration, reserveDuration, bindDuration, bindStageDuration, bindConflicts,
			directBindingDisabled,
		)
		legacyregistry.CustomMustRegister(caches)
	})
}

// One in sampledOneIn calls of Filter is measured: reading the clock twice takes as long as
// filtering a node.
const sampledOneIn = 16

// Sampled selects at random the Filter calls to measure.
func Sampled() bool { return rand.Uint32()%sampledOneIn == 0 }

// ObserveMatching records the duration of a Filter call that Sampled selected.
func ObserveMatching(took time.Duration) { matchingDuration.Observe(took.Seconds()) }

// ObserveReserve records how long one Reserve call took.
func ObserveReserve(took time.Duration) { reserveDuration.Observe(took.Seconds()) }

// ObserveBind records how long binding the claims of a pod took.
func ObserveBind(mode, outcome string, took time.Duration) {
	bindDuration.WithLabelValues(mode, outcome).Observe(took.Seconds())
}

// ObserveBindStage records how long one step of a binding took.
func ObserveBindStage(stage, outcome string, took time.Duration) {
	bindStageDuration.WithLabelValues(stage, outcome).Observe(took.Seconds())
}

// CountBindConflict records that a write conflicted with a newer version of the object.
func CountBindConflict(resource, outcome string) {
	bindConflicts.WithLabelValues(resource, outcome).Inc()
}

// SetDirectBindingDisabled records whether rights for Direct are missing.
func SetDirectBindingDisabled(disabled bool) {
	value := 0.0
	if disabled {
		value = 1
	}
	directBindingDisabled.Set(value)
}
