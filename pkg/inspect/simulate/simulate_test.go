// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"

	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
)

// simulator makes a simulator of stowage-scheduler's default profile.
func simulator(t *testing.T, objects ...snapshot.Object) *simulate.Simulator {
	t.Helper()
	s, err := simulate.New(t.Context(), simulate.Config{
		Snapshot: snapshot.Build(objects...),
		Profile:  schedulerconfig.Default().Profiles[0],
		Plugins:  frameworkruntime.Registry{volumetopology.Name: volumetopology.New},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
