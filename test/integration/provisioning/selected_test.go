// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/test/integration/fixture"
)

// deleteNode deletes a node of the Env.
func deleteNode(e *fixture.Env, name string) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	if err := e.Client.CoreV1().Nodes().Delete(ctx, e.Name(name), metav1.DeleteOptions{}); err != nil {
		e.T.Fatal(err)
	}
}

// TestSelectedNodeIsGone: a claim was sent to a node that does not exist any
// more. The stock plugin rejects every node forever.
func TestSelectedNodeIsGone(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"))
		createClass(e)
		p := startProvisioner(e, nil)
		e.CreatePVC(made(e, "data", "5Gi").SelectedNode(e.Name("gone")))
		pod := e.CreatePod(e.Pod("pod").PVC("data"))
		e.WaitScheduled(pod, "a")
		claim := e.WaitBound("data", "pvc-data")
		if node := claim.Annotations[plan.AnnSelectedNode]; node != e.Name("a") {
			e.T.Errorf("selected-node is %q, want %q", node, e.Name("a"))
		}
		if p.volumes() != 1 {
			e.T.Errorf("%d volumes were made, want 1", p.volumes())
		}
	})
}

// TestSelectedNodeIsDeleted: the pod waits for the node that its claim was sent
// to, until that is deleted.
func TestSelectedNodeIsDeleted(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"), e.Node("b"))
		createClass(e)
		e.CreatePVC(made(e, "data", "5Gi").SelectedNode(e.Name("b")))
		pod := e.CreatePod(e.Pod("pod").PVC("data").NodeSelector(v1.LabelHostname, e.Name("a")))
		e.WaitUnschedulable(pod)
		if node := e.SeenPVC("data").Annotations[plan.AnnSelectedNode]; node != e.Name("b") {
			e.T.Errorf("selected-node is %q while the node exists", node)
		}
		deleteNode(e, "b")
		e.WaitPVC("data", "sent to node a", selects(e, "a"))
		startProvisioner(e, nil) // no earlier, or it may make a volume on the deleted node
		e.WaitScheduled(pod, "a")
		e.WaitBound("data", "pvc-data")
	})
}

// TestSelectedNodeIsDeletedInFlight: the node is deleted while the provisioner
// makes a volume for it.
func TestSelectedNodeIsDeletedInFlight(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"))
		createClass(e)
		e.CreatePVC(made(e, "data", "5Gi"))
		pod := e.CreatePod(e.Pod("pod").PVC("data"))
		e.WaitPVC("data", "sent to node a", selects(e, "a"))
		e.AddNodes(e.Node("b"))
		deleteNode(e, "a")
		e.WaitPVC("data", "sent to node b", selects(e, "b"))
		startProvisioner(e, nil)
		e.WaitScheduled(pod, "b")
		e.WaitBound("data", "pvc-data")
	})
}

// TestTimeoutDoesNotMoveSelectedNode: a provisioner that takes its time may be
// at work all the same; a second volume elsewhere would never be used.
func TestTimeoutDoesNotMoveSelectedNode(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]configv1.BindingMode{"Direct": configv1.BindingModeDirect, "PVController": configv1.BindingModePVController} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			s := e.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{{
				Args: &configv1.VolumeTopologyArgs{BindTimeoutSeconds: new(int64(1)), BindingMode: mode},
			}}})
			e.Use(s.Name())
			e.AddNodes(e.Node("a"), e.Node("b"), e.Node("c"))
			createClass(e)
			g := newGate(e)
			p := startProvisioner(e, g.pass)
			e.CreatePVC(made(e, "data", "5Gi"))
			pod := e.CreatePod(e.Pod("pod").PVC("data"))
			g.wait(e, "data")
			node := e.WaitPVC("data", "sent to a node", func(claim *v1.PersistentVolumeClaim) bool {
				return claim.Annotations[plan.AnnSelectedNode] != ""
			}).Annotations[plan.AnnSelectedNode]
			e.WaitAttempt(s, pod, 3)
			if now := e.SeenPVC("data").Annotations[plan.AnnSelectedNode]; now != node {
				t.Errorf("selected-node is %q after two timeouts, was %q", now, node)
			}
			close(g.open)
			if got := e.WaitScheduled(pod).Spec.NodeName; got != node {
				t.Errorf("the pod is on node %q, its volume on %q", got, node)
			}
			if p.volumes() != 1 {
				t.Errorf("%d volumes were made, want 1", p.volumes())
			}
		})
	}
}
