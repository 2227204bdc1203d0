// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestOwnCluster: sequential tests that would disturb others on the same cluster: the API server
// is down, or hundreds of volumes occupy the PV controller. Without simulated kubelets, to
// create many nodes in little time.
func TestOwnCluster(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	bare := config()
	bare.NoKwok = true
	e := fixture.NewOn(t, bare)
	if err := prepare(e.Context(), e.Cluster); err != nil {
		t.Fatal(err)
	}
	t.Run("the API server is restarted while pods come", func(t *testing.T) { restartAPIServer(e.Sibling(t)) })
	t.Run("the extender is killed while pods come, again and again", func(t *testing.T) { kill(e.Sibling(t)) })
	t.Run("two replicas answer, and one is killed", func(t *testing.T) { useReplicas(e.Sibling(t)) })
	t.Run("of many nodes the last has the only volume", func(t *testing.T) { askAboutPart(e.Sibling(t)) })
}

// restartAPIServer wants each pod to have its volume afterwards.
func restartAPIServer(e *fixture.Env) {
	e.T.Helper()
	e.Timeout = 2 * waitTimeout
	own(e, plan{mode: "full", name: "extender-api"})
	pods := pack(e, 20, campaign.Scale(2, 25))
	e.Wait("a fifth of the pods to be placed", func() bool { return placed(e) >= len(pods)/5 })
	ctx, cancel := context.WithTimeout(e.Context(), waitTimeout)
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
// shown a part of the nodes, without the last one, which has the only volume, and the pod
// is refused; with the shipped configuration it is shown all.
func askAboutPart(e *fixture.Env) {
	e.T.Helper()
	// The default is 50 % less a 125th of the number of nodes, and 100 nodes at least.
	nodes, shown := campaign.Scale(200, 2000), campaign.Scale(100, 680)
	machines := make([]*builders.Node, nodes)
	for i := range machines {
		// Without the Env's label: they are removed with the cluster, which is faster than singly.
		machines[i] = builders.MakeNode(e.Name(fmt.Sprintf("node-%04d", i)))
	}
	last := fmt.Sprintf("node-%04d", nodes-1)
	anywhere := func(name string, d *deployment) *builders.Pod {
		return builders.MakePod(name).Namespace(e.Namespace).SchedulerName(d.name).PVC("data")
	}

	// Of 16 nodes at a time the scheduler takes those that are checked first: on a loaded machine any.
	d := own(e, plan{mode: "full", name: "extender-part", also: []string{"extender-all"}, scheduler: []string{"percentageOfNodesToScore: 100\n", "percentageOfNodesToScore: 0 # the default\nparallelism: 1\n"}})
	// The scheduler visits nodes in the order of their events, which is random
	// for those that exist at its start.
	e.AddNodes(machines[:nodes-1]...)
	e.AddNodes(machines[nodes-1])
	e.CreatePVs(e.LocalPV("only", last))
	// The first to use another volume of the last node shows that scheduler and extender have observed both.
	e.CreatePVs(e.LocalPV("other", last).Capacity("2Gi"))
	e.CreatePVC(e.PVC("other").Request("2Gi"))
	e.WaitScheduled(e.CreatePod(builders.MakePod("knows").Namespace(e.Namespace).SchedulerName(d.name).PVC("other").NodeSelector(v1.LabelHostname, e.Name(last))), last)
	e.CreatePVC(e.PVC("data"))
	pod := e.CreatePod(anywhere("pod", d))
	refused := fixture.Refusal(e.WaitUnschedulable(pod, noVolume))
	if want := fmt.Sprintf("0/%d nodes are available: %d node(s) %s", nodes, shown, noVolume); !strings.HasPrefix(refused, want) {
		e.T.Errorf("by default the pod is refused with %q, want %q", refused, want)
	}
	e.DeletePod(pod)
	if err := d.scheduler.Kill(); err != nil {
		e.T.Fatal(err)
	}

	d = own(e, plan{mode: "full", name: "extender-all", of: d})
	placed := e.WaitScheduled(e.CreatePod(anywhere("all", d)), last)
	if refusal := fixture.Refusal(placed); refusal != "" {
		e.T.Errorf("the pod was refused first: %s", refusal)
	}
	e.WaitBound("data", "only")
}
