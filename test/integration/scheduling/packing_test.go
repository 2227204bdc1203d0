// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestPerfectPacking: as many pods as there are volumes that fit, so that every
// volume must be used and no pod may take more than its own. On each node there
// are others that do not fit.
func TestPerfectPacking(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	nodes, perNode := campaign.Scale(6, 100), campaign.Scale(5, 10)
	fixture.BothModes(t, func(e *fixture.Env) {
		var machines []*builders.Node
		var volumes []*builders.PV
		fitting := map[string]bool{}
		for n := range nodes {
			node := fmt.Sprintf("node-%d", n)
			machines = append(machines, e.Node(node))
			for v := range perNode {
				name := fmt.Sprintf("fits-%d-%d", n, v)
				fitting[name] = true
				volumes = append(volumes, e.LocalPV(name, node).Capacity("2Gi"))
			}
			volumes = append(volumes,
				e.LocalPV(fmt.Sprintf("small-%d", n), node),
				e.LocalPV(fmt.Sprintf("reads-%d", n), node).Capacity("2Gi").AccessModes(v1.ReadOnlyMany))
		}
		e.CreatePVs(volumes...)
		var pods []*v1.Pod
		for i := range nodes * perNode {
			claim := fmt.Sprintf("claim-%d", i)
			e.CreatePVC(e.PVC(claim).Request("2Gi"))
			pods = append(pods, e.CreatePod(e.Pod(fmt.Sprintf("pod-%d", i)).PVC(claim)))
		}
		e.AddNodes(machines...)                           // last, so that all pods are placed at the same time,
		e.Timeout *= campaign.Scale[time.Duration](1, 15) // and the first that is waited for may be the last
		for _, pod := range pods {
			e.WaitScheduled(pod)
			e.CheckCaches() // while others are in flight
		}
		for i := range pods {
			e.WaitBound(fmt.Sprintf("claim-%d", i), "")
		}
		e.NoVolumeTwice()
		for claim, volume := range e.Bindings() {
			if !fitting[volume] {
				e.T.Errorf("claim %s has volume %s", claim, volume)
			}
		}
		load := map[string]int{}
		for _, node := range e.Placement() {
			load[node]++
		}
		for node, pods := range load {
			if pods != perNode {
				e.T.Errorf("node %s has %d pods, want %d", node, pods, perNode)
			}
		}
	})
}

// TestTwoProfilesOneCache: pods of two profiles of one scheduler request the
// same volumes at the same time. Each profile alone would use all of them.
func TestTwoProfilesOneCache(t *testing.T) {
	t.Parallel()
	const nodes, perNode = 4, 8
	e := fixture.New(t)
	var volumes []*builders.PV
	for n := range nodes {
		node := fmt.Sprintf("node-%d", n)
		e.AddNodes(e.Node(node))
		for v := range perNode {
			volumes = append(volumes, e.LocalPV(fmt.Sprintf("volume-%d-%d", n, v), node))
		}
	}
	e.CreatePVs(volumes...)
	var pods []*v1.Pod
	for i := range nodes * perNode / 2 {
		first, second := fmt.Sprintf("claim-%d-a", i), fmt.Sprintf("claim-%d-b", i)
		e.CreatePVC(e.PVC(first))
		e.CreatePVC(e.PVC(second))
		e.Use([]string{fixture.DirectProfile, fixture.PVControllerProfile}[i%2])
		pods = append(pods, e.CreatePod(e.Pod(fmt.Sprintf("pod-%d", i)).PVC(first, second)))
	}
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	for claim := range e.Bindings() {
		e.WaitBound(claim, "")
	}
	e.NoVolumeTwice()
	if bound := len(e.Bindings()); bound != nodes*perNode {
		t.Errorf("%d claims have volumes, want %d", bound, nodes*perNode)
	}
}
