// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"fmt"
	"testing"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestOwnCluster: what other tests on the same cluster would not bear, one after the
// other: the API server is away, or hundreds of volumes keep the PV controller from
// theirs. Without simulated kubelets, to make many nodes in little time.
func TestOwnCluster(t *testing.T) {
	t.Parallel()
	bare := config()
	bare.NoKwok = true
	e := fixture.NewOn(t, bare)
	if err := prepare(e.Context(), e.Cluster); err != nil {
		t.Fatal(err)
	}
	t.Run("the API server is restarted in the middle of 100 pods", func(t *testing.T) { restartAPIServer(e.Sibling(t)) })
	t.Run("the extender is killed in the middle of 500 pods, twice", func(t *testing.T) { kill(e.Sibling(t)) })
	t.Run("two replicas answer, and one is killed", func(t *testing.T) { useReplicas(e.Sibling(t)) })
	t.Run("of 2,000 nodes the last has the only volume", func(t *testing.T) { askAboutPart(e.Sibling(t)) })
}

// restartAPIServer wants each pod to have its volume afterwards.
func restartAPIServer(e *fixture.Env) {
	e.T.Helper()
	e.Timeout = 2 * patience
	own(e, plan{mode: "full", name: "extender-api"})
	pods := pack(e, 20, 5)
	e.Wait("pods to be placed", func() bool { return placed(e) >= 20 })
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	defer cancel()
	if err := e.Cluster.APIServer().Restart(ctx); err != nil {
		e.T.Fatal(err)
	}
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	wantPacked(e, len(pods))
}

// askAboutPart: with the scheduler's default percentageOfNodesToScore the extender is
// shown a part of the nodes, and the pod is refused; with the shipped configuration it
// is shown all.
func askAboutPart(e *fixture.Env) {
	e.T.Helper()
	const nodes = 2000
	machines := make([]*builders.Node, nodes)
	for i := range machines {
		// Without the Env's label: they go with the cluster, sooner than one by one.
		machines[i] = builders.MakeNode(e.Name(fmt.Sprintf("node-%d", i)))
	}
	e.AddNodes(machines...)
	anywhere := func(name string, d *deployment) *builders.Pod {
		return builders.MakePod(name).Namespace(e.Namespace).SchedulerName(d.name).PVC("data")
	}

	d := own(e, plan{mode: "full", name: "extender-part", scheduler: []string{"percentageOfNodesToScore: 100\n", "percentageOfNodesToScore: 0 # the default\n"}})
	e.CreatePVC(e.PVC("data"))
	pod := e.CreatePod(anywhere("pod", d))
	// Without a volume anywhere, the refusal tells of how many nodes it is.
	refused := e.WaitUnschedulable(pod, noVolume)
	all, part := 0, 0
	if _, err := fmt.Sscanf(fixture.Refusal(refused), "0/%d nodes are available: %d node(s)", &all, &part); err != nil || part == 0 || part >= nodes {
		e.T.Errorf("by default the extender is shown %d nodes: %s", part, fixture.Refusal(refused))
	}
	e.DeletePod(pod)
	if err := d.scheduler.Kill(); err != nil {
		e.T.Fatal(err)
	}

	d = own(e, plan{mode: "full", name: "extender-all", of: d})
	e.CreatePVs(e.LocalPV("only", fmt.Sprintf("node-%d", nodes-1)))
	placed := e.WaitScheduled(e.CreatePod(anywhere("all", d)), fmt.Sprintf("node-%d", nodes-1))
	if refusal := fixture.Refusal(placed); refusal != "" {
		e.T.Errorf("the pod was refused first: %s", refusal)
	}
	e.WaitBound("data", "only")
	e.T.Logf("shown %d of %d nodes by default", part, nodes)
}
