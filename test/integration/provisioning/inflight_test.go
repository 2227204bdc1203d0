// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/integration/fixture"
)

// bindingWrites are the writes of a claim's binding.
var bindingWrites = []func(fixture.Request) bool{
	fixture.Is("update", "persistentvolumeclaims"),
	fixture.Is("update", "persistentvolumeclaims/status"),
	fixture.Is("update", "persistentvolumes"),
	fixture.Is("update", "persistentvolumes/status"),
}

// countWrites is how often each of bindingWrites was sent.
func countWrites(tap *fixture.Tap) []int {
	counts := make([]int, len(bindingWrites))
	for _, r := range tap.Writes() {
		for i, is := range bindingWrites {
			if is(r) {
				counts[i]++
			}
		}
	}
	return counts
}

// TestLeavesBindingToPVController: in that mode the scheduler selects the node
// and then waits for the PV controller to bind the volume.
func TestLeavesBindingToPVController(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	tap := fixture.NewTap()
	s := e.Start(fixture.SchedulerOptions{Tap: tap, Profiles: []fixture.Profile{{Args: fixture.PVControllerArgs()}}})
	e.Use(s.Name())
	e.AddNodes(e.Node("a"))
	createClass(e)
	g := newGate(e)
	startProvisioner(e, g.pass)
	e.CreatePVC(made(e, "data", "5Gi"))
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	g.wait(e, "data")
	close(g.open)
	e.WaitScheduled(pod, "a")
	e.WaitBound("data", "pvc-data")
	if got := countWrites(tap); !slices.Equal(got, []int{1, 0, 0, 0}) {
		t.Errorf("the scheduler's writes: %v, want one, to the claim; all: %v", got, tap.Writes())
	}
}

// TestDirectFinishesByItself: without a PV controller, the volume appears and
// the scheduler does all the rest.
func TestDirectFinishesByItself(t *testing.T) {
	t.Parallel()
	e := fixture.NewOn(t, fixture.DefaultConfig())
	e.AddNodes(e.Node("a"))
	createClass(e)
	e.CreatePVs(e.LocalPV("existing", "a"))
	ctx, cancel := context.WithTimeout(t.Context(), e.Timeout)
	defer cancel()
	if err := e.PVController().Stop(ctx); err != nil {
		t.Fatal(err)
	}
	e.CreatePVC(made(e, "data", "5Gi"))
	e.CreatePVC(e.PVC("static"))
	pod := e.CreatePod(e.Pod("pod").PVC("data", "static"))
	claim := e.WaitPVC("data", "sent to node a", selects(e, "a"))
	// The provisioner makes a volume. Only a PV controller makes it
	// Available, and the scheduler waits for that; here the test does.
	e.CreatePVsUnseen(e.LocalPV("volume", "a").Class(e.Name("made")).Capacity("5Gi").CSI(driver(e), "1").
		ClaimRef(e.Namespace, "data", string(claim.UID)).ProvisionedBy(driver(e)))
	volume := e.WaitPV("volume", "there", anyVolume).DeepCopy()
	volume.Status.Phase = v1.VolumeAvailable
	if _, err := e.Client.CoreV1().PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.WaitScheduled(pod, "a")
	e.WaitBound("data", "volume")
	e.WaitBound("static", "existing")
	for _, name := range []string{"volume", "existing"} {
		e.WaitPV(name, "Bound", func(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeBound })
	}
	e.NoVolumeTwice()
}
