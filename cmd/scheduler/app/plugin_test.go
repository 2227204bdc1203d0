// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2/ktesting"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
)

// The registry finds plugins with bindings by this interface.
var _ drainer = (*volumetopology.Plugin)(nil)

// TestVolumeTopologyInItsProfile: the plugin that main registers is created by the
// configuration without a file, under the name of its arguments, and the framework runs
// it at every point that the checks of profiles cover.
func TestVolumeTopologyInItsProfile(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)

	_, sched, err := Setup(ctx, parse(t), frameworkruntime.Registry{volumetopology.Name: volumetopology.New})
	if err != nil {
		t.Fatalf("Setup: %v", err)
	}
	ran := sched.Profiles[componentName].ListPlugins()
	var want, got []string
	for _, point := range schedulerconfig.VolumePoints {
		want = append(want, point.Name)
		for _, plugin := range point.Set(ran).Enabled {
			if plugin.Name == configv1.PluginName {
				got = append(got, point.Name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("extension points of %s (-want +got):\n%s", configv1.PluginName, diff)
	}
}
