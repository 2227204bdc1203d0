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

// component has the metrics of one component. They are registered together.
type component struct {
	prefix string // of the names
	all    []metrics.Registerable

	registering sync.Once
}

var (
	scheduler   = &component{prefix: "stowage_scheduler_"}
	extender    = &component{prefix: "stowage_extender_"}
	controller  = &component{prefix: "stowage_controller_"}
	provisioner = &component{prefix: "stowage_provisioner_"}
	csi         = &component{prefix: "stowage_csi_"}
	// reference has the names of sig-storage-local-static-provisioner, whose dashboards and
	// alerts keep working.
	reference = &component{prefix: "local_volume_provisioner_"}
)

// register registers the metrics and the collectors once with the registry of the process.
func (c *component) register(collectors ...metrics.StableCollector) {
	c.registering.Do(func() {
		legacyregistry.MustRegister(c.all...)
		legacyregistry.CustomMustRegister(collectors...)
	})
}

func added[M metrics.Registerable](c *component, metric M) M {
	c.all = append(c.all, metric)
	return metric
}

func (c *component) gauge(name, help string) *metrics.Gauge {
	return added(c, metrics.NewGauge(&metrics.GaugeOpts{Name: c.prefix + name, Help: help, StabilityLevel: metrics.ALPHA}))
}

func (c *component) gaugeVec(name, help string, labels ...string) *metrics.GaugeVec {
	return added(c, metrics.NewGaugeVec(&metrics.GaugeOpts{Name: c.prefix + name, Help: help, StabilityLevel: metrics.ALPHA}, labels))
}

func (c *component) counter(name, help string) *metrics.Counter {
	return added(c, metrics.NewCounter(&metrics.CounterOpts{Name: c.prefix + name, Help: help, StabilityLevel: metrics.ALPHA}))
}

func (c *component) counterVec(name, help string, labels ...string) *metrics.CounterVec {
	return added(c, metrics.NewCounterVec(&metrics.CounterOpts{Name: c.prefix + name, Help: help, StabilityLevel: metrics.ALPHA}, labels))
}

func (c *component) histogram(name, help string, buckets []float64) *metrics.Histogram {
	return added(c, metrics.NewHistogram(&metrics.HistogramOpts{Name: c.prefix + name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}))
}

func (c *component) histogramVec(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	return added(c, metrics.NewHistogramVec(&metrics.HistogramOpts{Name: c.prefix + name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}, labels))
}

// desc describes a metric of a collector.
func (c *component) desc(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc(c.prefix+name, help, labels, nil, metrics.ALPHA, "")
}

// oneIf is 1 for true, else 0.
func oneIf(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

var (
	matchingDuration = scheduler.histogram("matching_duration_seconds",
		"Time one Filter call takes to match the claims of a pod to one node; one in 16 calls is measured.",
		metrics.ExponentialBuckets(0.000001, 2, 16))
	reserveDuration = scheduler.histogram("reserve_duration_seconds",
		"Time Reserve takes to choose and hold the volumes of a pod on its node.",
		metrics.ExponentialBuckets(0.000001, 2, 16))
	bindDuration = scheduler.histogramVec("bind_duration_seconds",
		"Time PreBind takes to bind all claims of a pod, including waits for provisioners and the PV controller, by binding mode and outcome (success, failure, error, timeout, canceled; provisioning: the scheduler must call the extender again).",
		metrics.ExponentialBuckets(0.001, 2, 20), "mode", "outcome")
	bindStageDuration = scheduler.histogramVec("bind_stage_duration_seconds",
		"Time of one stage of binding the claims of a pod (claim_volumes, select_node, await_volumes, bind_claims, await_bound, undo), by stage and outcome as in bind_duration_seconds.",
		metrics.ExponentialBuckets(0.001, 2, 20), "stage", "outcome")
	bindConflicts = scheduler.counterVec("bind_conflicts_total",
		"Conflicts of a binding's writes with a newer version of the object, by resource and outcome: done (it has the change), retried, lost (another client has taken the object).",
		"resource", "outcome")
	directBindingDisabled = scheduler.gauge("direct_binding_disabled",
		"1 if bindingMode Direct is configured but the right to update persistentvolumes/status or persistentvolumeclaims/status is missing, so that the PV controller completes bindings; else 0.")
)

// Register registers the scheduler's metrics with the registry that kube-scheduler serves
// at /metrics. It may be called any number of times.
func Register() { scheduler.register(caches) }

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
func SetDirectBindingDisabled(disabled bool) { directBindingDisabled.Set(oneIf(disabled)) }

var (
	extenderRequests = extender.histogramVec("request_duration_seconds",
		"Time to answer a call of the scheduler, including reading and writing, by verb (filter, prioritize, preempt, bind) and outcome (ok, error (the answer has the reason), malformed, too_large, not_ready, ended (by its deadline or by the caller), panic).",
		metrics.ExponentialBuckets(0.0005, 2, 16), "verb", "outcome")
	extenderBinds = extender.counterVec("binds_total",
		"Calls to bind a pod, by outcome: bound, provisioning (the scheduler must call again), conflict (another pod took volumes or capacity after the filter call; the pod is retried), error.",
		"outcome")
	extenderWait = extender.histogram("filter_wait_seconds",
		"Time a filter call waits, if it does: until the previous pod's bind has reserved, for queued binds, or for lagging informers. Part of request_duration_seconds.",
		metrics.ExponentialBuckets(0.0005, 2, 12))
)

// RegisterExtender registers the extender's metrics, and those of the scheduling cache and of binding,
// which it shares with the scheduler.
func RegisterExtender() {
	Register()
	extender.register()
}

// ObserveExtenderRequest records how long a call of the scheduler took.
func ObserveExtenderRequest(verb, outcome string, took time.Duration) {
	extenderRequests.WithLabelValues(verb, outcome).Observe(took.Seconds())
}

// ObserveExtenderWait records how long a call to filter waited.
func ObserveExtenderWait(took time.Duration) { extenderWait.Observe(took.Seconds()) }

// CountExtenderBind records how a call to bind a pod ended.
func CountExtenderBind(outcome string) { extenderBinds.WithLabelValues(outcome).Inc() }
