// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
)

var (
	extenderRequests = extender.histogramVec("request_duration_seconds",
		"Time to answer a call of the scheduler, reading and writing it included, by verb (filter, prioritize, preempt, bind) and outcome (ok, error (the answer has the reason), malformed, too_large, not_ready, ended (by its deadline or by the caller), panic).",
		metrics.ExponentialBuckets(0.0005, 2, 16), "verb", "outcome")
	extenderBinds = extender.counterVec("binds_total",
		"Calls to bind a pod, by outcome: bound, provisioning (volumes are being provisioned, the scheduler must call again), conflict (another pod took the volumes or the capacity after the node was filtered, the pod is scheduled again), error.",
		"outcome")
	extenderWait = extender.histogram("filter_wait_seconds",
		"Time a filter call waits, if it does: until the previous pod's bind has reserved, for queued binds, or for lagging informers. The sum is bounded to a tenth of the time. Part of request_duration_seconds.",
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
