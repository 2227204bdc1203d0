// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestLeaderHandover: of three schedulers that share a lease the leader dies
// while it binds a flood of pods, and the next one is asked to end.
func TestLeaderHandover(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = patience
	const pods, nodes = 60, 10
	options := sample(e,
		// A test does not want to wait long for the lease of one that died.
		"  leaderElect: true\n", "  leaderElect: true\n  leaseDuration: 6s\n  renewDeadline: 5s\n  retryPeriod: 1s\n",
		// Slow enough for each to have a part.
		"  qps: 1000\n  burst: 2000\n", "  qps: 25\n  burst: 1\n")
	options.LeaderElect = true
	addVolumes(e, nodes, 3*pods)
	flood := createFlood(e, e.Name("scheduler"), pods)
	running := []*cluster.Process{startProcess(e, options), startProcess(e, options), startProcess(e, options)}
	addNodes(e, nodes) // last, so that all pods can be placed at once

	wrote := func(n int) {
		t.Helper()
		e.Wait(fmt.Sprintf("%d volumes to be claimed", n), func() bool { return len(claimed(e)) >= n })
	}
	underWay := func(what string) {
		t.Helper()
		placed := scheduled(e, flood)
		t.Logf("%s with %d volumes claimed, %d pods placed", what, len(claimed(e)), placed)
		if placed == pods {
			t.Error("nothing was left to be handed over")
		}
	}
	wrote(10)
	leader := leading(e, running)
	if err := running[leader].Kill(); err != nil {
		t.Fatal(err)
	}
	running = slices.Delete(running, leader, leader+1)
	underWay("leader killed")
	wrote(len(claimed(e)) + 20) // what was under way may still show
	leader = leading(e, running)
	underWay("next leader asked to end")
	within(e, running[leader].Stop)
	wantSettled(e, flood...)
}

// leading is which of the processes says that it has the lease; the last one
// if none does, which may be about to get it.
func leading(e *fixture.Env, processes []*cluster.Process) int {
	e.T.Helper()
	for i, p := range processes {
		if slices.Contains(metricsOf(e, p), `leader_election_master_status{name="stowage-scheduler"} 1`) {
			return i
		}
	}
	return len(processes) - 1
}
