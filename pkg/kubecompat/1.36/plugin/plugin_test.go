// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// TestPreFlight: the status is the plugin's, and PreBind may run in parallel with others.
func TestPreFlight(t *testing.T) {
	t.Parallel()
	skip := fwk.NewStatus(fwk.Skip)
	f := PreFlight(func(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return skip })
	result, status := f.PreBindPreFlight(t.Context(), nil, nil, "")
	if !result.AllowParallel || status != skip {
		t.Errorf("parallel %t, status %v; want parallel, and the plugin's status", result.AllowParallel, status)
	}
}
