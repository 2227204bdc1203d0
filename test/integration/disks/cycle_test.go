// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// TestCycle: a volume is published, bound, released, cleaned and published again.
func TestCycle(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	n := node.New(t, e, "a")
	n.Mount("disk1", "64M")
	n.Start()
	volume := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	e.CreatePVC(e.PVC("data").Class(n.Files).Request("1Mi"))
	pod := e.CreatePod(e.Pod("web").PVC("data"))
	e.WaitScheduled(pod, "a")
	n.WaitPhase(n.Files, "disk1", corev1.VolumeBound)
	n.Write("disk1", "secret", "of the first user")
	e.DeletePod(pod)
	e.DeletePVC("data")
	n.WaitRepublished(n.Files, "disk1", volume)
	if names := n.Names("disk1"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
}
