// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// waitFor polls for a state that has no events: that the API server
// evaluates a policy, or that a kind is served.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !comes(t, done) {
		t.Fatalf("wait until %s: not within %s", what, patience)
	}
}

// comes is waitFor whose caller reports what is missing.
func comes(t *testing.T, done func() bool) bool {
	return wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { //nolint:forbidigo // there is no event
		return done(), nil
	}) == nil
}
