// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

const (
	noVolume = "didn't find available persistent volumes to bind"
	noSpace  = "did not have enough free storage"
)

// TestFull: the pods of mode Full, with the stock VolumeBinding disabled.
func TestFull(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]struct {
		nodes   []string
		volumes func(e *fixture.Env) []*builders.PV
		claims  func(e *fixture.Env) []*builders.PVC
		bound   map[string]string // volumes by claim
		node    string
		refusal string
	}{
		"the only node with a volume": {
			nodes:   []string{"a", "b"},
			volumes: func(e *fixture.Env) []*builders.PV { return []*builders.PV{e.LocalPV("v", "b")} },
			claims:  func(e *fixture.Env) []*builders.PVC { return []*builders.PVC{e.PVC("data")} },
			bound:   map[string]string{"data": "v"}, node: "b",
		},
		"no volume": {
			nodes:   []string{"a"},
			volumes: func(e *fixture.Env) []*builders.PV { return []*builders.PV{e.LocalPV("v", "a")} },
			claims:  func(e *fixture.Env) []*builders.PVC { return []*builders.PVC{e.PVC("data").Request("2Gi")} },
			refusal: noVolume,
		},
		"the volume that fits best, on any node": {
			nodes: []string{"a", "b"},
			volumes: func(e *fixture.Env) []*builders.PV {
				return []*builders.PV{e.LocalPV("large", "a").Capacity("100Gi"), e.LocalPV("fits", "b").Capacity("10Gi")}
			},
			claims: func(e *fixture.Env) []*builders.PVC { return []*builders.PVC{e.PVC("data").Request("10Gi")} },
			bound:  map[string]string{"data": "fits"}, node: "b",
		},
		"joint assignment where greedy fails": {
			nodes: []string{"a"},
			volumes: func(e *fixture.Env) []*builders.PV {
				return []*builders.PV{e.LocalPV("ssd", "a").Label("disk", "ssd"), e.LocalPV("spinning", "a").Capacity("5Gi")}
			},
			claims: func(e *fixture.Env) []*builders.PVC {
				return []*builders.PVC{e.PVC("any"), e.PVC("fast").MatchLabel("disk", "ssd")}
			},
			bound: map[string]string{"any": "spinning", "fast": "ssd"}, node: "a",
		},
		"two claims, one volume": {
			nodes:   []string{"a"},
			volumes: func(e *fixture.Env) []*builders.PV { return []*builders.PV{e.LocalPV("v", "a")} },
			claims:  func(e *fixture.Env) []*builders.PVC { return []*builders.PVC{e.PVC("one"), e.PVC("two")} },
			refusal: noVolume,
		},
		"a volume pre-bound to the claim": {
			nodes: []string{"a", "b"},
			volumes: func(e *fixture.Env) []*builders.PV {
				return []*builders.PV{e.LocalPV("other", "a"), e.LocalPV("mine", "b").Capacity("9Gi").ClaimRef(e.Namespace, "data", "")}
			},
			claims: func(e *fixture.Env) []*builders.PVC { return []*builders.PVC{e.PVC("data")} },
			bound:  map[string]string{"data": "mine"}, node: "b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := full(fixture.New(t))
			for _, node := range scenario.nodes {
				e.AddNodes(e.Node(node))
			}
			e.CreatePVs(scenario.volumes(e)...)
			var names []string
			for _, claim := range scenario.claims(e) {
				names = append(names, e.CreatePVC(claim).Name)
			}
			pod := e.CreatePod(e.Pod("pod").PVC(names...))
			if scenario.refusal != "" {
				e.WaitUnschedulable(pod, scenario.refusal)
				return
			}
			e.WaitScheduled(pod, scenario.node)
			for claim, volume := range scenario.bound {
				e.WaitBound(claim, volume)
			}
			e.NoVolumeTwice()
		})
	}
}

// TestMissingClaim: the pod's condition names the missing claim, and the pod is placed
// once it exists.
func TestMissingClaim(t *testing.T) {
	t.Parallel()
	e := full(fixture.New(t))
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("v", "a"))
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	e.WaitUnschedulable(pod, `persistentvolumeclaim "data" not found`)
	e.CreatePVC(e.PVC("data"))
	e.WaitScheduled(pod, "a")
	e.WaitBound("data", "v")
}

// TestVolumeAppears: a pod that was refused is placed when a volume appears.
func TestVolumeAppears(t *testing.T) {
	t.Parallel()
	e := full(fixture.New(t))
	e.AddNodes(e.Node("a"))
	e.CreatePVC(e.PVC("data"))
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	e.WaitUnschedulable(pod, noVolume)
	e.CreatePVs(e.LocalPV("v", "a"))
	e.WaitScheduled(pod, "a")
	e.WaitBound("data", "v")
}

// TestPerfectPacking: as many pods as volumes that fit, so that each must be used.
func TestPerfectPacking(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	e := fixture.New(t)
	e.Timeout = 2 * waitTimeout
	d := own(e, plan{mode: "full", name: "extender-packing"}) // for metrics without other tests' binds
	nodes, volumes := packing(e, campaign.Scale(6, 100), campaign.Scale(5, 10))
	e.CreatePVs(volumes...)
	pods := packed(e, len(volumes)-len(nodes), func(int) {})
	e.AddNodes(nodes...) // last, so that all pods are placed at the same time
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	wantPacked(e, len(pods))
	t.Logf("calls to bind: %s", d.replica[0].counts(t.Context(), "stowage_extender_binds_total"))
	const stages = `stowage_scheduler_bind_stage_duration_seconds_count{outcome="%s",stage="claim_volumes"}`
	if len(d.replica[0].counts(t.Context(), fmt.Sprintf(stages, "success"))) == 0 {
		t.Error("the metrics do not count claimed volumes")
	}
	for _, failed := range d.replica[0].counts(t.Context(), fmt.Sprintf(stages, "failure")) {
		t.Errorf("volumes that were reserved for a pod were another's by then: %s", failed)
	}
}

// pack creates nodes with perNode volumes each, and a pod for each volume. Each node
// has one more volume, which is too small.
func pack(e *fixture.Env, nodes, perNode int) []*v1.Pod {
	e.T.Helper()
	return packWhile(e, nodes, perNode, func(int) {})
}

// packWhile is pack that calls meanwhile with the number of pods after each new
// one.
func packWhile(e *fixture.Env, nodes, perNode int, meanwhile func(pods int)) []*v1.Pod {
	e.T.Helper()
	machines, volumes := packing(e, nodes, perNode)
	e.AddNodes(machines...)
	e.CreatePVs(volumes...)
	return packed(e, nodes*perNode, meanwhile)
}

// packing are the nodes of pack and their volumes.
func packing(e *fixture.Env, nodes, perNode int) (machines []*builders.Node, volumes []*builders.PV) {
	for n := range nodes {
		node := fmt.Sprintf("node-%d", n)
		machines = append(machines, e.Node(node))
		for v := range perNode {
			volumes = append(volumes, e.LocalPV(fmt.Sprintf("fits-%d-%d", n, v), node).Capacity("2Gi"))
		}
		volumes = append(volumes, e.LocalPV(fmt.Sprintf("small-%d", n), node))
	}
	return machines, volumes
}

// packed are the pods of pack, created one after the other.
func packed(e *fixture.Env, count int, meanwhile func(pods int)) []*v1.Pod {
	e.T.Helper()
	var pods []*v1.Pod
	for i := range count {
		claim := fmt.Sprintf("claim-%d", i)
		e.CreatePVC(e.PVC(claim).Request("2Gi"))
		pods = append(pods, e.CreatePod(e.Pod(fmt.Sprintf("pod-%d", i)).PVC(claim)))
		meanwhile(len(pods))
	}
	return pods
}

// wantPacked: every claim has a volume, and no two have the same.
func wantPacked(e *fixture.Env, claims int) {
	e.T.Helper()
	for i := range claims {
		e.WaitBound(fmt.Sprintf("claim-%d", i), "")
	}
	e.NoVolumeTwice()
	if bound := len(e.Bindings()); bound != claims {
		e.T.Errorf("%d claims have volumes, want %d", bound, claims)
	}
}

// TestPodWithoutClaims: the extender is not called, and the pod is placed.
func TestPodWithoutClaims(t *testing.T) {
	t.Parallel()
	e := full(fixture.New(t))
	e.AddNodes(e.Node("a"))
	pod := e.CreatePod(e.Pod("pod"))
	if marked(pod) {
		t.Error("a pod without claims is marked")
	}
	e.WaitScheduled(pod, "a")
}
