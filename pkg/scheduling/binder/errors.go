// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

// errDeadline is the cause with which Bind's own deadline ends its context.
var errDeadline = errors.New("bind timeout")

// TimeoutError means that the deadline of a Bind call has passed.
type TimeoutError struct {
	// After is the deadline.
	After time.Duration
	// Waiting describes, for each claim that is not bound, what it waits for.
	Waiting []string
}

var _ error = (*TimeoutError)(nil)

// Error describes the claims that are not bound.
func (e *TimeoutError) Error() string {
	if len(e.Waiting) == 0 {
		return fmt.Sprintf("volumes were not bound within %s", e.After)
	}
	return fmt.Sprintf("volumes were not bound within %s: %s", e.After, strings.Join(e.Waiting, "; "))
}

// Unwrap makes errors.Is(err, context.DeadlineExceeded) true.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// ProvisioningError means that Advance waits for volumes to be provisioned. It is not a
// failure.
type ProvisioningError struct {
	// Waiting describes, for each claim without a volume, what it waits for.
	Waiting []string
}

var _ error = (*ProvisioningError)(nil)

// Error describes the claims without a volume.
func (e *ProvisioningError) Error() string { return strings.Join(e.Waiting, "; ") }

// APIError is a request that the API server rejected permanently, or did not answer despite
// retries.
type APIError struct {
	// Verb and Resource are as in an RBAC rule.
	Verb, Resource string
	// Name is the object's, with its namespace.
	Name string
	Err  error
}

var _ error = (*APIError)(nil)

// Error has the request and the API server's response.
func (e *APIError) Error() string {
	return fmt.Sprintf("%s %s %q: %v", e.Verb, e.Resource, e.Name, e.Err)
}

// Unwrap returns the API server's response.
func (e *APIError) Unwrap() error { return e.Err }

// outcome returns the metric label for the error of a stage or a Bind call.
func outcome(err error) string {
	var failure *plan.Failure
	var provisioning *ProvisioningError
	switch {
	case err == nil:
		return "success"
	case errors.As(err, &provisioning):
		return "provisioning" // Advance only
	case errors.As(err, &failure):
		return "failure"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errDeadline):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	default:
		return "error"
	}
}
