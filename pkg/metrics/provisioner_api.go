// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"net/http"
	"time"

	"k8s.io/component-base/metrics"
)

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
