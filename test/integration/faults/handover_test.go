// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"slices"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestLeaderHandover: of three schedulers that share a lease the leader dies
// in the middle of a flood of pods, and the next one is asked to end.
func TestLeaderHandover(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = patience
	options := sample(e,
		// A test does not want to wait long for the lease of one that died.
		"  leaderElect: true\n", "  leaderElect: true\n  leaseDuration: 6s\n  renewDeadline: 5s\n  retryPeriod: 1s\n",
		// Slow enough for each to have a part.
		"  qps: 1000\n  burst: 2000\n", "  qps: 50\n  burst: 1\n")
	options.LeaderElect = true
	running := []*cluster.Process{startProcess(e, options), startProcess(e, options), startProcess(e, options)}
	flood := createFlood(e, e.Name("scheduler"), floodPods)
	placed := func(n int) {
		t.Helper()
		e.Wait("pods to be placed", func() bool { return scheduled(e, flood) >= min(n, len(flood)) })
	}

	placed(1)
	leader := leading(e, running)
	if err := running[leader].Kill(); err != nil {
		t.Fatal(err)
	}
	running = slices.Delete(running, leader, leader+1)
	left := scheduled(e, flood)
	t.Logf("leader killed with %d pods placed", left)
	placed(left + floodPods/10) // what was under way may still show
	leader = leading(e, running)
	t.Logf("next leader asked to end with %d pods placed", scheduled(e, flood))
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
