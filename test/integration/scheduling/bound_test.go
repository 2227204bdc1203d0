// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// bindTo binds a new claim to a new volume on a node of the Env, as after a pod that was
// deleted. Both phases are Bound: a volume whose phase is still Available loses its finalizer
// when it is deleted.
func bindTo(e *fixture.Env, claim, node string) {
	e.T.Helper()
	e.CreatePVs(e.LocalPV("of-"+claim, node))
	e.CreatePVC(e.PVC(claim))
	first := e.CreatePod(e.Pod("first-" + claim).PVC(claim))
	e.WaitScheduled(first, node)
	e.WaitBound(claim, "of-"+claim)
	e.WaitPV("of-"+claim, "Bound", func(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeBound })
	e.DeletePod(first)
}

// TestBoundClaims: the pod is placed on its volume's node, or has the reason in its condition.
func TestBoundClaims(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// bound claims, by node.
		claims map[string]string
		pod    func(*fixture.Env, *v1.Pod)
		node   string
		// refusals are parts of the message of a pod that is refused.
		refusals []string
	}{
		"anywhere: to the volume's node": {
			claims: map[string]string{"data": "a"},
			node:   "a",
		},
		"two claims on one node": {
			claims: map[string]string{"data": "a", "log": "a"},
			node:   "a",
		},
		"by selector to the right node": {
			claims: map[string]string{"data": "a"},
			pod:    func(e *fixture.Env, p *v1.Pod) { p.Spec.NodeSelector[v1.LabelHostname] = e.Name("a") },
			node:   "a",
		},
		"by selector to the wrong node": {
			claims:   map[string]string{"data": "a"},
			pod:      func(e *fixture.Env, p *v1.Pod) { p.Spec.NodeSelector[v1.LabelHostname] = e.Name("b") },
			refusals: []string{leftOut, "1 node(s) didn't match Pod's node affinity/selector"},
		},
		"by name to the wrong node": {
			claims: map[string]string{"data": "a"},
			pod: func(e *fixture.Env, p *v1.Pod) {
				p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
						NodeSelectorTerms: []v1.NodeSelectorTerm{builders.FieldTerm(builders.In("metadata.name", e.Name("b")))},
					},
				}}
			},
			refusals: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity VolumeTopology] simultaneously"},
		},
		"two claims on two nodes: PreFilter has the reason": {
			claims:   map[string]string{"data": "a", "log": "b"},
			refusals: []string{nodeConflict},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			e.AddNodes(e.Node("a"), e.Node("b"))
			pod := e.Pod("pod")
			for claim, node := range test.claims {
				bindTo(e, claim, node)
				pod.PVC(claim)
			}
			object := pod.Obj()
			if test.pod != nil {
				test.pod(e, object)
			}
			made := e.CreatePodObject(object)
			if test.node != "" {
				e.WaitScheduled(made, test.node)
				return
			}
			e.WaitUnschedulable(made, test.refusals...)
		})
	}
}

// TestBoundToVolumeOfNoNode: the node of a bound volume has changed its label.
func TestBoundToVolumeOfNoNode(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a").Label("rack", e.Name("r1")))
	pod := create(e, scene{
		volumes: []*builders.PV{e.PV("volume").Affinity(builders.Term(builders.In("rack", e.Name("r1"))))},
		claims:  []*builders.PVC{e.PVC("data")},
	})
	e.WaitScheduled(pod, "a")
	e.WaitBound("data", "volume")
	e.DeletePod(pod)
	e.PatchNode("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"rack": e.Name("r9")}}})
	pod = e.CreatePod(e.Pod("again").PVC("data"))
	refusedByVolumes(e, pod, nodeConflict)
}

// TestBoundToMissingVolume: the volume is deleted, and the PV controller has not
// marked the claim Lost because the claim names it from the start.
func TestBoundToMissingVolume(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"))
	e.CreatePVC(e.PVC("data").VolumeName(e.Name("missing")).BindCompleted())
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	// First the plugin's message, then the PV controller's verdict.
	e.WaitPod(pod, "refused", func(p *v1.Pod) bool {
		return containsAny(fixture.Refusal(p), volumeMissing, "bound to non-existent persistentvolume")
	})
}

// TestNarrowing: a claim bound to a volume on one node reduces the cycle to that node,
// and the pod's condition shows it.
func TestNarrowing(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"), e.Node("b"))
	bindTo(e, "data", "a")
	// Too large for any node: only node a is checked for CPU.
	pod := e.CreatePod(e.Pod("large").PVC("data").Requests("1000", ""))
	e.WaitUnschedulable(pod, "1 Insufficient cpu", leftOut)
}
