// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// TestPreFlight: the status is the plugin's.
func TestPreFlight(t *testing.T) {
	t.Parallel()
	skip := fwk.NewStatus(fwk.Skip)
	f := PreFlight(func(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return skip })
	if status := f.PreBindPreFlight(t.Context(), nil, nil, ""); status != skip {
		t.Errorf("status %v, want the plugin's", status)
	}
}
