// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"stowage.dev/stowage/pkg/metrics"
)

// observations is how many values a histogram of the process has.
func observations(t *testing.T, name string) uint64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}

// TestClaimedAtOnce: a volume that has a claim before the provisioner observes it Available is
// measured, and no volume is measured twice.
func TestClaimedAtOnce(t *testing.T) {
	metrics.RegisterProvisioner()
	const disks, released = "stowage_provisioner_disk_to_available_seconds", "stowage_provisioner_released_to_available_seconds"
	beforeDisks, beforeReleased := observations(t, disks), observations(t, released)
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.start()
		e.phase(corev1.VolumeBound) // never Available
		e.phase(corev1.VolumeReleased)
		e.pass(time.Minute)
		e.phase(corev1.VolumeAvailable)
		e.phase(corev1.VolumeBound)
	})
	if n := observations(t, disks) - beforeDisks; n != 1 {
		t.Errorf("%d disks are measured, want 1", n)
	}
	if n := observations(t, released) - beforeReleased; n != 1 {
		t.Errorf("%d released volumes are measured, want 1", n)
	}
}
