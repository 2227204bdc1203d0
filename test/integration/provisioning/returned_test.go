// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestReturnedCapacityWakes: capacity is held for a claim with a selected node
// without a running provisioner. A pod that is unschedulable there is requeued when
// the claim is deleted, or moves to another node; the CSIStorageCapacity is unchanged.
func TestReturnedCapacityWakes(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]func(*fixture.Env){
		"the claim is deleted": func(e *fixture.Env) {
			ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
			defer cancel()
			if err := e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).Delete(ctx, "sent", metav1.DeleteOptions{}); err != nil {
				e.T.Fatal(err)
			}
		},
		"the node is deselected": func(e *fixture.Env) {
			e.PatchPVC("sent", map[string]any{"metadata": map[string]any{"annotations": map[string]any{plan.AnnSelectedNode: nil}}})
		},
		"the node is deleted": func(e *fixture.Env) { deleteNode(e, "b") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, held := range []bool{false, true} {
				e := fixture.New(t)
				gate := &fixture.Gate{}
				e.Use(e.Start(fixture.SchedulerOptions{Gate: gate}).Name())
				e.AddNodes(e.Node("a").Zone(e.Name("z")), e.Node("b").Zone(e.Name("z")))
				createClass(e)
				trackCapacity(e, true)
				publish(e, nodeCapacity(e, "capacity", "").Everywhere().Zone(e.Name("z")).Capacity("100Gi"))
				e.CreatePVC(made(e, "sent", "60Gi").SelectedNode(e.Name("b")))
				e.CreatePVC(made(e, "data", "60Gi"))
				pod := e.CreatePod(e.Pod("pod").PVC("data").NodeSelector("kubernetes.io/hostname", e.Name("a")))
				e.WaitUnschedulable(pod, noSpace)
				if held {
					gate.Hold() // the queue receives the event, the cache does not
				}
				event(e)
				gate.Release()
				e.WaitPVC("data", "sent to node a", selects(e, "a"))
			}
		})
	}
}
