// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"fmt"
	"testing"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestPercentageOfNodes: of 2,000 nodes the last has the only volume. With the
// scheduler's default the extender is shown a part of them, and the pod is refused;
// with the shipped configuration it is shown all. Each has a cluster of its own,
// without simulated kubelets, to make so many nodes in little time.
func TestPercentageOfNodes(t *testing.T) {
	t.Parallel()
	const nodes = 2000
	config := fixture.DefaultConfig()
	config.NoKwok = true
	e := fixture.NewOn(t, config)
	e.Timeout = patience
	if err := prepare(e.Context(), e.Cluster); err != nil {
		t.Fatal(err)
	}
	machines := make([]*builders.Node, nodes)
	for i := range machines {
		machines[i] = e.Node(fmt.Sprintf("node-%d", i))
	}
	e.AddNodes(machines...)

	d := own(e, plan{mode: "full", name: "extender-part", scheduler: []string{"percentageOfNodesToScore: 100\n", "percentageOfNodesToScore: 0 # the default\n"}})
	e.CreatePVC(e.PVC("data"))
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	// Without a volume anywhere, the refusal tells of how many nodes it is.
	refused := e.WaitUnschedulable(pod, noVolume)
	part := 0
	if _, err := fmt.Sscanf(fixture.Refusal(refused), "0/2000 nodes are available: %d node(s)", &part); err != nil || part >= nodes {
		t.Errorf("by default the extender is shown %d nodes: %s", part, fixture.Refusal(refused))
	}
	e.DeletePod(pod)
	d.stop()

	own(e, plan{mode: "full", name: "extender-all"})
	e.CreatePVs(e.LocalPV("only", fmt.Sprintf("node-%d", nodes-1)))
	all := e.CreatePod(e.Pod("all").PVC("data"))
	seen := e.WaitScheduled(all, fmt.Sprintf("node-%d", nodes-1))
	if refusal := fixture.Refusal(seen); refusal != "" {
		t.Errorf("the pod was refused first: %s", refusal)
	}
	e.WaitBound("data", "only")
	t.Logf("shown %d of %d nodes by default", part, nodes)
}
