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

// Values of the outcome label of metrics.
const (
	outcomeSuccess  = "success"
	outcomeFailure  = "failure"
	outcomeError    = "error"
	outcomeTimeout  = "timeout"
	outcomeCanceled = "canceled"
	// outcomeProvisioning is Advance's: a provisioner is at work.
	outcomeProvisioning = "provisioning"
)

// errDeadline is the cause with which Bind's own deadline ends its context.
var errDeadline = errors.New("bind timeout")

// TimeoutError says that the deadline of a Bind call has passed.
type TimeoutError struct {
	// After is the deadline.
	After time.Duration
	// Waiting says for each claim that is not bound what it waits for.
	Waiting []string
}

var _ error = (*TimeoutError)(nil)

// Error tells what is still waited for.
func (e *TimeoutError) Error() string {
	if len(e.Waiting) == 0 {
		return fmt.Sprintf("volumes were not bound within %s", e.After)
	}
	return fmt.Sprintf("volumes were not bound within %s: %s", e.After, strings.Join(e.Waiting, "; "))
}

// Unwrap makes errors.Is(err, context.DeadlineExceeded) true.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// ProvisioningError says that Advance has done what can be done before volumes
// have been made. It is not a failure.
type ProvisioningError struct {
	// Waiting says for each claim without a volume what it waits for.
	Waiting []string
}

var _ error = (*ProvisioningError)(nil)

// Error tells what is waited for.
func (e *ProvisioningError) Error() string { return strings.Join(e.Waiting, "; ") }

// APIError is a request that the API server refused for good, or did not
// answer in spite of repetition.
type APIError struct {
	// Verb and Resource are as in an RBAC rule.
	Verb, Resource string
	// Name is the object's, with its namespace.
	Name string
	Err  error
}

var _ error = (*APIError)(nil)

// Error names the request and the server's answer.
func (e *APIError) Error() string {
	return fmt.Sprintf("%s %s %q: %v", e.Verb, e.Resource, e.Name, e.Err)
}

// Unwrap gives the server's answer.
func (e *APIError) Unwrap() error { return e.Err }

// outcome sorts what a stage or a Bind call returned into the metric label.
func outcome(err error) string {
	var failure *plan.Failure
	var provisioning *ProvisioningError
	switch {
	case err == nil:
		return outcomeSuccess
	case errors.As(err, &provisioning):
		return outcomeProvisioning
	case errors.As(err, &failure):
		return outcomeFailure
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errDeadline):
		return outcomeTimeout
	case errors.Is(err, context.Canceled):
		return outcomeCanceled
	default:
		return outcomeError
	}
}

// waiting says in words what a claim in this state waits for.
func waiting(s claimState) string {
	text := ""
	switch s.state {
	case plan.Requested:
		by := "a provisioner"
		if s.provisioner != "" {
			by = fmt.Sprintf("provisioner %q", s.provisioner)
		}
		text = fmt.Sprintf("waits for %s to create its volume on node %q, see the claim's events", by, s.node)
	case plan.Unseen, plan.Claimed:
		text = fmt.Sprintf("waits for the PV controller (kube-controller-manager) to bind it to volume %q", s.volumeName())
	case plan.ClaimBound:
		text = fmt.Sprintf("waits for its status and that of volume %q to become Bound", s.volumeName())
	case plan.Bound:
		text = "is bound"
	}
	return fmt.Sprintf("claim %q %s", s.name, text)
}
