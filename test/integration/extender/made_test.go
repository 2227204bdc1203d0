// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	volumeplan "stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// driver makes volumes, played by the tests.
func driver(e *fixture.Env) string { return e.Name("csi.example.com") }

// makes creates the class e.Name("made") of the driver, whose capacity counts or
// does not.
func makes(e *fixture.Env, tracked bool) {
	e.T.Helper()
	e.CreateClass(e.Class("made").Provisioner(driver(e)))
	object := builders.MakeCSIDriver(driver(e)).StorageCapacity(tracked).Obj()
	object.Labels = e.NodeSelector()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	if _, err := e.Client.StorageV1().CSIDrivers().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		e.T.Fatal(err)
	}
}

func made(e *fixture.Env, name, size string) *builders.PVC {
	return e.PVC(name).Class(e.Name("made")).Request(size)
}

// setCapacity sets the driver's capacity on a node.
func setCapacity(e *fixture.Env, node, size string) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	capacities := e.Client.StorageV1().CSIStorageCapacities(e.Namespace)
	object := builders.MakeCapacity("capacity-"+node, e.Name("made")).Namespace(e.Namespace).Hostname(e.Name(node)).Capacity(size).Obj()
	live, err := capacities.Get(ctx, object.Name, metav1.GetOptions{})
	if err == nil {
		live.Capacity = object.Capacity
		_, err = capacities.Update(ctx, live, metav1.UpdateOptions{})
	} else {
		_, err = capacities.Create(ctx, object, metav1.CreateOptions{})
	}
	if err != nil {
		e.T.Fatal(err)
	}
}

// waitSelected waits until the claim has a selected node, and returns it.
func waitSelected(e *fixture.Env, claim string, nodes ...string) *v1.PersistentVolumeClaim {
	e.T.Helper()
	return e.WaitPVC(claim, "sent to a node", func(c *v1.PersistentVolumeClaim) bool {
		for _, node := range nodes {
			if c.Annotations[volumeplan.AnnSelectedNode] == e.Name(node) {
				return true
			}
		}
		return len(nodes) == 0 && c.Annotations[volumeplan.AnnSelectedNode] != ""
	})
}

// provision makes the volume of a claim on the node that is selected. The PV
// controller takes note of it.
func provision(e *fixture.Env, claim *v1.PersistentVolumeClaim) {
	e.T.Helper()
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	e.CreatePVsUnseen(e.PV("pvc-"+claim.Name).Hostname(claim.Annotations[volumeplan.AnnSelectedNode]).Class(e.Name("made")).
		Capacity(size.String()).CSI(driver(e), claim.Name).ClaimRef(e.Namespace, claim.Name, string(claim.UID)).ProvisionedBy(driver(e)))
}

// bothModes runs a test in either mode.
func bothModes(t *testing.T, f func(e *fixture.Env)) {
	t.Helper()
	for name, use := range map[string]func(*fixture.Env) *fixture.Env{"full": full, "advisory": advisory} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(use(fixture.New(t)))
		})
	}
}

// TestProvisioned: the claim's node is selected, the pod waits for the volume and
// is then placed where it is.
func TestProvisioned(t *testing.T) {
	t.Parallel()
	bothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"), e.Node("b"))
		makes(e, false)
		e.CreatePVs(e.LocalPV("existing", "b"))
		e.CreatePVC(made(e, "data", "5Gi"))
		e.CreatePVC(e.PVC("static"))
		pod := e.CreatePod(e.Pod("pod").PVC("data", "static"))
		provision(e, waitSelected(e, "data", "b"))
		e.WaitScheduled(pod, "b")
		e.WaitBound("data", "pvc-data")
		e.WaitBound("static", "existing")
		e.NoVolumeTwice()
	})
}

// TestCapacityIsSummed: two claims fit a node each, and not both. The stock plugin
// would not notice.
func TestCapacityIsSummed(t *testing.T) {
	t.Parallel()
	bothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"))
		makes(e, true)
		setCapacity(e, "a", "10Gi")
		e.CreatePVC(made(e, "one", "6Gi"))
		e.CreatePVC(made(e, "two", "6Gi"))
		pod := e.CreatePod(e.Pod("pod").PVC("one", "two"))
		e.WaitUnschedulable(pod, noSpace)
		setCapacity(e, "a", "12Gi")
		provision(e, waitSelected(e, "one", "a"))
		provision(e, waitSelected(e, "two", "a"))
		e.WaitScheduled(pod, "a")
	})
}

// TestCapacityInFlight: what one pod's volume will take is not given to another.
func TestCapacityInFlight(t *testing.T) {
	t.Parallel()
	bothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"), e.Node("b"))
		makes(e, true)
		setCapacity(e, "a", "10Gi")
		setCapacity(e, "b", "10Gi")
		names := []string{"one", "two", "three", "four"}
		pods := map[string]*v1.Pod{}
		for _, name := range names {
			e.CreatePVC(made(e, name, "6Gi"))
		}
		for _, name := range names {
			pods[name] = e.CreatePod(e.Pod(name).PVC(name))
		}
		sent := func() (list []string) {
			for _, name := range names {
				if claim := e.SeenPVC(name); claim != nil && claim.Annotations[volumeplan.AnnSelectedNode] != "" {
					list = append(list, name)
				}
			}
			return list
		}
		refused := func() (n int) {
			for _, name := range names {
				if pod := e.SeenPod(name); pod != nil && fixture.Refusal(pod) != "" {
					n++
				}
			}
			return n
		}
		e.Wait("two pods to be sent to nodes and two to be refused", func() bool { return len(sent()) == 2 && refused() >= 2 })
		first := sent()
		nodes := map[string]bool{}
		for _, name := range first {
			claim := waitSelected(e, name)
			nodes[claim.Annotations[volumeplan.AnnSelectedNode]] = true
			provision(e, claim)
			e.WaitScheduled(pods[name])
		}
		if len(nodes) != 2 {
			e.T.Errorf("two volumes of 6Gi are made on %v, where there are 10Gi each\n%s", nodes, e.Dump())
		}
		// The driver's own CSIStorageCapacity shows the rest, and then more.
		setCapacity(e, "a", "4Gi")
		setCapacity(e, "b", "12Gi")
		e.Wait("the others to be sent to node b", func() bool { return len(sent()) == 4 })
		for _, name := range names {
			if e.SeenPV("pvc-"+name) == nil {
				provision(e, waitSelected(e, name, "b"))
				e.WaitScheduled(pods[name], "b")
			}
		}
	})
}

// TestProvisionerFails: the pod is placed on another node.
func TestProvisionerFails(t *testing.T) {
	t.Parallel()
	e := full(fixture.New(t))
	e.AddNodes(e.Node("a"), e.Node("b"))
	makes(e, true)
	setCapacity(e, "a", "20Gi")
	setCapacity(e, "b", "10Gi")
	e.CreatePVC(made(e, "data", "5Gi"))
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	waitSelected(e, "data", "a") // the one with more capacity
	setCapacity(e, "a", "1Gi")
	e.PatchPVC("data", map[string]any{"metadata": map[string]any{"annotations": map[string]any{volumeplan.AnnSelectedNode: nil}}})
	provision(e, waitSelected(e, "data", "b"))
	e.WaitScheduled(pod, "b")
}

// TestScoringDecides: of two nodes the one whose volume fits best, where the stock
// plugin would take the other.
func TestScoringDecides(t *testing.T) {
	t.Parallel()
	e := advisory(fixture.New(t))
	e.AddNodes(e.Node("a"), e.Node("b"), e.Node("c"))
	e.CreatePVs(e.LocalPV("large", "a").Capacity("100Gi"), e.LocalPV("fits", "b").Capacity("10Gi"), e.LocalPV("huge", "c").Capacity("500Gi"))
	e.CreatePVC(e.PVC("data").Request("10Gi"))
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	e.WaitScheduled(pod, "b")
	e.WaitBound("data", "fits")
}
