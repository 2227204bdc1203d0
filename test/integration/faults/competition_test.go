// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestSchedulersCompete: two independent schedulers give
// volumes of one class to the claims of their pods at the same time.
func TestSchedulersCompete(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	direct, controller, stock := fixture.Profile{}, fixture.Profile{Args: fixture.PVControllerArgs()}, fixture.Profile{Stock: true}
	pods := 2 * campaign.Scale(15, 150)
	fewer := min(pods, 100) // a node takes 110
	for name, tc := range map[string]struct {
		profiles       [2]fixture.Profile
		pods, claims   int // claims of each pod
		nodes, volumes int
	}{
		"Direct and the stock scheduler, not a volume to spare":       {[2]fixture.Profile{direct, stock}, pods, 1, 20, pods},
		"PVController and the stock scheduler, not a volume to spare": {[2]fixture.Profile{controller, stock}, pods, 1, 20, pods},
		"two of Stowage, not a volume to spare":                       {[2]fixture.Profile{direct, direct}, pods, 1, 20, pods},
		// A pod whose first claim the PV controller has bound needs the rest on
		// the same node, which other pods must not be able to fill.
		"both modes, two claims a pod": {[2]fixture.Profile{direct, controller}, fewer, 2, 2, 2 * 2 * fewer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			e.Timeout = waitTimeout
			addVolumes(e, tc.nodes, tc.volumes)
			var schedulers [2]*fixture.Scheduler
			for i := range tc.profiles {
				schedulers[i] = e.Start(fixture.SchedulerOptions{Profiles: tc.profiles[i : i+1], MaxBackoffSeconds: 1})
			}
			var all []*v1.Pod
			for i := range tc.pods {
				e.Use(schedulers[i%2].Name())
				pod := e.Pod(fmt.Sprintf("pod-%d", i))
				for j := range tc.claims {
					pod.PVC(e.CreatePVC(e.PVC(fmt.Sprintf("claim-%d-%d", i, j))).Name)
				}
				all = append(all, e.CreatePod(pod))
			}
			addNodes(e, tc.nodes) // last, so that both place all their pods at the same time
			wantSettled(e, all...)
			for _, s := range schedulers {
				if s.Cache() != nil {
					wantNothingReserved(e, s)
				}
			}
			if n := len(claimed(e)); n != tc.pods*tc.claims {
				t.Errorf("%d volumes are claimed, want %d: one for each claim\n%s", n, tc.pods*tc.claims, e.Dump())
			}
		})
	}
}

// addVolumes spreads volumes over nodes, which need not exist yet.
func addVolumes(e *fixture.Env, nodes, count int) {
	e.T.Helper()
	var volumes []*builders.PV
	for i := range count {
		volumes = append(volumes, e.LocalPV(fmt.Sprintf("volume-%d", i), fmt.Sprintf("node-%d", i%nodes)))
	}
	e.CreatePVs(volumes...)
}

// addNodes makes the nodes of addVolumes.
func addNodes(e *fixture.Env, count int) {
	e.T.Helper()
	var nodes []*builders.Node
	for n := range count {
		nodes = append(nodes, e.Node(fmt.Sprintf("node-%d", n)))
	}
	e.AddNodes(nodes...)
}
